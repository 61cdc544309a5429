# The image of k2ktui: docs/containers.md explains how to build and run it.
#
# BASE is any image with Python 3.11 to 3.14 as python3, with the modules venv and pip.
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
# "spark" runs pipelines; an image of the console and of sync needs no extra: EXTRAS=
ARG EXTRAS=spark
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY themes ./themes
COPY k2ktui ./k2ktui
RUN python3 -m venv /opt/k2ktui \
 && /opt/k2ktui/bin/pip install --no-cache-dir ".${EXTRAS:+[${EXTRAS}]}"

FROM ${BASE}
COPY --from=build /opt/k2ktui /opt/k2ktui
# The only directory that is written: state, caches and temporary files. Any user id may run the
# image, if its group is 0 (as on OpenShift) or the volume there can be written by its own group.
RUN mkdir -p /var/lib/k2ktui && chown 65532:0 /var/lib/k2ktui && chmod 2770 /var/lib/k2ktui
ENV PATH=/opt/k2ktui/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/var/lib/k2ktui \
    TMPDIR=/var/lib/k2ktui \
    XDG_STATE_HOME=/var/lib/k2ktui/state \
    XDG_CACHE_HOME=/var/lib/k2ktui/cache \
    XDG_CONFIG_HOME=/var/lib/k2ktui/config \
    K2KTUI_CLASS_ARCHIVES=off
VOLUME /var/lib/k2ktui
WORKDIR /var/lib/k2ktui
USER 65532:0
# k2ktui is the process that gets the signals: no shell is between.
ENTRYPOINT ["/opt/k2ktui/bin/k2ktui"]
CMD ["--help"]
