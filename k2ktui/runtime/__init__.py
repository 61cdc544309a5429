"""Java runtimes, Apache Kafka's jars, one-node clusters, and child processes that end with k2ktui.

- :func:`k2ktui.runtime.java.find_java`, :func:`~k2ktui.runtime.java.spark_java_home`
- :func:`k2ktui.runtime.artifacts.classpath`
- :class:`k2ktui.runtime.node.KafkaNode`
- :func:`k2ktui.runtime.child_process.spawn`
"""
