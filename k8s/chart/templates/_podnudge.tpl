{{/* Include these with `.Subcharts.podnudge`. A native sidecar, under initContainers. */}}
{{- define "podnudge.sidecar" -}}
{{ include "podnudge.container" . }}
  restartPolicy: Always
{{- if .Values.restartPod }}
  restartPolicyRules:
    - action: RestartAllContainers
      exitCodes: {operator: In, values: [88]}
{{- end }}
{{- end }}

{{/* An ordinary container, under containers. */}}
{{- define "podnudge.container" -}}
- name: podnudge
  image: {{ .Values.image | quote }}
  args:
    - --listen=:9533
    - --log=json
{{- if .Values.state }}
    - --state-dir=/var/lib/podnudge
{{- end }}
{{- if .Values.config }}
    - --config=/etc/podnudge/podnudge.toml
{{- else }}
{{- if not .Values.watch }}{{ fail "podnudge: nothing to watch; set `watch` to a volume of the pod and a path, such as {config: /etc/nginx}, or `config`" }}{{ end }}
{{- range .Values.watch }}
    - --watch={{ . }}
{{- end }}
{{- end }}
{{- range .Values.options }}
    - {{ . | quote }}
{{- end }}
  env:
    - name: PODNUDGE_POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: PODNUDGE_POD_UID
      valueFrom: {fieldRef: {fieldPath: metadata.uid}}
  ports:
    - {name: podnudge, containerPort: 9533}
  livenessProbe:
    httpGet: {path: /livez, port: podnudge}
{{- if .Values.drain }}
  readinessProbe:
    httpGet: {path: /serving, port: podnudge}
    periodSeconds: 1
    failureThreshold: 1
{{- end }}
  resources:
    requests: {cpu: 1m, memory: 8Mi}
    limits: {memory: 32Mi}
  securityContext:
    {{- $isRoot := eq (toString .Values.runAsUser) "0" }}
    {{- if ne (toString .Values.runAsUser) "<nil>" }}
    runAsUser: {{ int64 .Values.runAsUser }}
    {{- end }}
    runAsNonRoot: {{ not $isRoot }}
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]{{ if $isRoot }}, add: [KILL]{{ end }}}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
{{- range $volume, $path := .Values.watch }}
    - {name: {{ $volume }}, mountPath: {{ $path }}, readOnly: true}
{{- end }}
{{- if .Values.config }}
    - {name: podnudge-file, mountPath: /etc/podnudge, readOnly: true}
{{- end }}
{{- if .Values.state }}
    - {name: podnudge-state, mountPath: /var/lib/podnudge}
{{- end }}
{{- if include "podnudge.usesApi" . }}
    - {name: podnudge-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- end }}

{{/* Under volumes; may be empty. */}}
{{- define "podnudge.volumes" -}}
{{- if .Values.config }}
- name: podnudge-file
  configMap: {name: {{ .Release.Name }}-podnudge}
{{- end }}
{{- if .Values.state }}
- name: podnudge-state
  emptyDir: {sizeLimit: 16Mi}
{{- end }}
{{- if include "podnudge.usesApi" . }}
- name: podnudge-token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}
{{- end }}

{{/* For the pod, if `access` has anything. */}}
{{- define "podnudge.serviceAccountName" -}}
{{ .Values.access.serviceAccountName | default (printf "%s-podnudge" .Release.Name) }}
{{- end }}

{{/* Empty if the Role does not let podnudge change any pod. */}}
{{- define "podnudge.changesPods" -}}
{{- with .Values.access }}{{ if or .evict .eagerSync.configMaps .eagerSync.secrets }}true{{ end }}{{ end }}
{{- end }}

{{/* Empty if the admission policy does not hold the service account, or is not told to. */}}
{{- define "podnudge.isHeld" -}}
{{- $account := include "podnudge.serviceAccountName" . }}
{{- $hasName := or (eq $account "podnudge") (hasSuffix "-podnudge" $account) }}
{{- if or $hasName .Values.accessPolicy (has $account .Values.accessPolicyAccounts) }}true{{ end }}
{{- end }}

{{/* The rules of the Role; empty if podnudge does not use the API. */}}
{{- define "podnudge.usesApi" -}}
{{- with .Values.access }}
{{- if .lease.name }}
{{- $lease := .lease }}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ range $n := until (int .lease.slots) }}{{ if $n }}, {{ end }}{{ $lease.name }}-{{ $n }}{{ end }}]
  verbs: [get, update]
{{- end }}
{{- if or .lease.name .services .evict }}
- {apiGroups: [""], resources: [pods], verbs: [get]}
{{- end }}
{{- if .services }}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]}
{{- end }}
{{- with .eagerSync.configMaps }}
- {apiGroups: [""], resources: [configmaps], resourceNames: [{{ join ", " . }}], verbs: [list, watch]}
{{- end }}
{{- with .eagerSync.secrets }}
- {apiGroups: [""], resources: [secrets], resourceNames: [{{ join ", " . }}], verbs: [list, watch]}
{{- end }}
{{- if or .eagerSync.configMaps .eagerSync.secrets }}
- {apiGroups: [""], resources: [pods], verbs: [patch]}
{{- end }}
{{- if .evict }}
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
{{- end }}
{{- if .events }}
- {apiGroups: [""], resources: [events], verbs: [create]}
{{- end }}
{{- end }}
{{- end }}
