{{- define "k2ktui.labels" -}}
app.kubernetes.io/name: k2ktui
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* A Deployment. It gets root, the context; name; command; replicas; strategy; options; resources. */}}
{{- define "k2ktui.deployment" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels:
    {{- include "k2ktui.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .command }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- include "k2ktui.labels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .command }}
  strategy:
    type: {{ .strategy }}
    {{- if eq .strategy "RollingUpdate" }}
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "k2ktui.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .command }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        {{- with $values.pipeline.files }}
        checksum/pipeline: {{ toJson . | sha256sum }}
        {{- end }}
        {{- if eq $values.metrics "annotations" }}
        prometheus.io/scrape: "true"
        prometheus.io/port: "8080"
        prometheus.io/path: /metrics
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      # SIGTERM: a run hands its slots over and ends within 5 s, with exit code 0.
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        {{- with $values.user }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        seccompProfile:
          type: RuntimeDefault
      {{- with $values.pod }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "k2ktui.labels" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .command }}
      containers:
        - name: k2ktui
          image: {{ $values.image | quote }}
          # All addresses: the probes and Prometheus come from outside the pod.
          args:
            - {{ .command }}
            {{- range $values.pipeline.names }}
            - --file=/etc/k2ktui/pipeline/{{ . }}
            {{- end }}
            - --log-format=json
            - --http=0.0.0.0:8080
            {{- range .options }}
            - {{ . | quote }}
            {{- end }}
          {{- with $values.env }}
          env:
            {{- range $name, $value := . }}
            - name: {{ $name }}
              value: {{ $value | quote }}
            {{- end }}
          {{- end }}
          ports:
            - name: http
              containerPort: 8080
          # It fails only if the process itself is stuck: an outage of a cluster restarts no pod.
          livenessProbe:
            httpGet:
              path: /livez
              port: http
            initialDelaySeconds: 30
            periodSeconds: 20
            timeoutSeconds: 10
            failureThreshold: 6
          # A pod without slots is ready. The body says why one is not: kubectl describe pod.
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
          # The error that ends it is written to /dev/termination-log. Where a kill or a wrong
          # option leaves that empty, the end of the log is the reason.
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            {{- toYaml .resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          # Directories: Kubernetes never updates what is mounted with subPath.
          volumeMounts:
            - name: pipeline
              mountPath: /etc/k2ktui/pipeline
              readOnly: true
            {{- range $index, $secret := $values.secrets }}
            - name: secret-{{ $index }}
              mountPath: /etc/k2ktui/secrets/{{ $secret }}
              readOnly: true
            {{- end }}
            - name: work
              mountPath: /var/lib/k2ktui
      volumes:
        - name: pipeline
          configMap:
            name: {{ $values.pipeline.existingConfigMap | default $root.Release.Name }}
        {{- range $index, $secret := $values.secrets }}
        - name: secret-{{ $index }}
          secret:
            secretName: {{ $secret }}
            defaultMode: 288 # 0440
        {{- end }}
        # All state is on the target cluster: nothing here has to outlive the pod.
        - name: work
          emptyDir:
            sizeLimit: {{ $values.workSize }}
{{- end }}
