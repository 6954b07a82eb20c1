{{- define "streamactors.bootstrap" -}}
{{- if .Values.bootstrapServers -}}
{{ .Values.bootstrapServers }}
{{- else -}}
{{ .Release.Name }}-broker:9092
{{- end -}}
{{- end -}}

{{- define "streamactors.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "streamactors.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "streamactors.probes" -}}
startupProbe:
  httpGet: {path: /live, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /live, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 6
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 6
{{- end -}}
