{{/* Include these with `.Subcharts.podnudge`. A native sidecar, under initContainers. */}}
{{- define "podnudge.sidecar" -}}
{{- with include "podnudge.install" . }}{{ . }}
{{ end }}
{{- include "podnudge.container" . }}
  restartPolicy: Always
{{- if .Values.restartPod }}
  restartPolicyRules:
    - action: RestartAllContainers
      exitCodes: {operator: In, values: [88]}
{{- end }}
{{- end }}

{{/* Copies podnudge to where its container of the application's image runs it; empty without `installed`. */}}
{{- define "podnudge.install" -}}
{{- if .Values.installed.image -}}
- name: podnudge-install
  {{- include "podnudge.ownImage" . | nindent 2 }}
  args: [install, /opt/podnudge]
  resources:
    requests: {cpu: 1m, memory: 16Mi}
    limits: {memory: 32Mi}
  securityContext:
    runAsNonRoot: true
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
    - {name: podnudge-program, mountPath: /opt/podnudge}
{{- end }}
{{- end }}

{{/* An ordinary container, under containers. */}}
{{- define "podnudge.container" -}}
{{- $port := include "podnudge.port" . }}
- name: podnudge
{{- if .Values.installed.image }}
  image: {{ .Values.installed.image | quote }}
  command: [/usr/local/bin/podnudge]
{{- else }}
  {{- include "podnudge.ownImage" . | nindent 2 }}
{{- end }}
  args:
{{- if .Values.config }}
{{- range .Values.options }}
{{- if hasPrefix "--config=" . }}{{ fail "podnudge: `config` cannot be combined with the option --config; leave one of them out" }}{{ end }}
{{- end }}
    - --config=/etc/podnudge/podnudge.toml
{{- else }}
{{- if not .Values.watch }}{{ fail "podnudge: nothing to watch; set `watch` to a volume of the pod and a path, such as {config: /etc/nginx}, or `config`" }}{{ end }}
{{- range .Values.watch }}
    - {{ printf "--watch=%s" . | quote }}
{{- end }}
{{- end }}
{{- range .Values.options }}
    - {{ . | quote }}
{{- end }}
  # Not as options, which can only be given once.
  env:
    - {name: PODNUDGE_LISTEN, value: ":9533"}
    - {name: PODNUDGE_LOG, value: json}
    - name: PODNUDGE_POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: PODNUDGE_POD_UID
      valueFrom: {fieldRef: {fieldPath: metadata.uid}}
    - name: PODNUDGE_POD_NAMESPACE
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
    - name: PODNUDGE_NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- if .Values.state }}
    - {name: PODNUDGE_STATE_DIR, value: /var/lib/podnudge}
{{- end }}
{{- with include "podnudge.env" .Values.env | trim }}
{{- . | nindent 4 }}
{{- end }}
{{- if $port }}
  ports:
    - {name: podnudge, containerPort: {{ $port }}}
  livenessProbe:
    httpGet: {path: /livez, port: podnudge}
{{- end }}
{{- if .Values.drain }}
{{- if not $port }}{{ fail "podnudge: `drain` needs a port that the kubelet reaches; leave out the option --listen, or write a port, such as --listen=:9600" }}{{ end }}
  readinessProbe:
    httpGet: {path: /serving, port: podnudge}
    periodSeconds: 1
    failureThreshold: 1
{{- end }}
  resources: {{ ternary .Values.installed.resources .Values.resources (ne .Values.installed.image "") | toJson }}
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
    - {name: {{ $volume | quote }}, mountPath: {{ $path | quote }}, readOnly: true}
{{- end }}
{{- if .Values.config }}
    - {name: podnudge-file, mountPath: /etc/podnudge, readOnly: true}
{{- end }}
{{- if .Values.state }}
    - {name: podnudge-state, mountPath: /var/lib/podnudge}
{{- end }}
{{- if .Values.installed.image }}
    - {name: podnudge-program, mountPath: /usr/local/bin/podnudge, subPath: podnudge, readOnly: true}
    - {name: podnudge-work, mountPath: /tmp}
{{- end }}
{{- if include "podnudge.usesApi" . }}
    - {name: podnudge-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- end }}

{{- define "podnudge.ownImage" -}}
image: {{ include "podnudge.image" . | quote }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "podnudge.image" -}}
{{- $version := .Chart.AppVersion }}
{{- with .Values.image }}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $version }}{{ end }}
{{- end }}
{{- end }}

{{/* The further environment variables of a list; may be empty. */}}
{{- define "podnudge.env" -}}
{{- $own := list "PODNUDGE_LISTEN" "PODNUDGE_LOG" "PODNUDGE_POD_NAME" "PODNUDGE_POD_UID" "PODNUDGE_STATE_DIR" }}
{{- range . }}
{{- if has .name $own }}{{ fail (printf "podnudge: `env` cannot set %s, which the chart sets; leave it out, or use `options` or `state`" .name) }}{{ end }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{/* What the metadata of an object has besides its name. It takes a list: the context, and the name of the program. */}}
{{- define "podnudge.metadata" -}}
{{- $root := first . }}
{{- $labels := dict "app.kubernetes.io/name" (last .) "app.kubernetes.io/instance" $root.Release.Name }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") }}
labels: {{ merge $labels $root.Values.labels | toJson }}
{{- with $root.Values.annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- end }}

{{/* The port that the probes reach; empty if there is none. */}}
{{- define "podnudge.port" -}}
{{- $listen := ":9533" }}
{{- range .Values.options }}
{{- if hasPrefix "--listen=" . }}{{ $listen = trimPrefix "--listen=" . }}{{ end }}
{{- end }}
{{- if not (regexMatch "^(127[.]|[[]::1[]]:|.*:0+$)" $listen) }}{{ regexFind "[1-9][0-9]*$" $listen }}{{ end }}
{{- end }}

{{/* Under volumes; may be empty. */}}
{{- define "podnudge.volumes" -}}
{{- if .Values.config }}
- name: podnudge-file
  configMap: {name: {{ printf "%s-podnudge" .Release.Name | quote }}}
{{- end }}
{{- if .Values.state }}
- name: podnudge-state
  emptyDir: {sizeLimit: 16Mi}
{{- end }}
{{- if .Values.installed.image }}
- name: podnudge-program
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
- name: podnudge-work
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
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
  resourceNames: [{{ range $n := until (int .lease.slots) }}{{ if $n }}, {{ end }}{{ printf "%s-%d" $lease.name $n | quote }}{{ end }}]
  verbs: [get, update, patch, watch]
{{- end }}
{{- if or .lease.name .services .evict }}
- {apiGroups: [""], resources: [pods], verbs: [get]}
{{- end }}
{{- if .services }}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]}
{{- end }}
{{- with .eagerSync.configMaps }}
- {apiGroups: [""], resources: [configmaps], resourceNames: {{ toJson . }}, verbs: [list, watch]}
{{- end }}
{{- with .eagerSync.secrets }}
- {apiGroups: [""], resources: [secrets], resourceNames: {{ toJson . }}, verbs: [list, watch]}
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

{{/* The policy, with the image, the resources and the environment of this chart's values, as expressions of CEL. */}}
{{- define "podnudge.injection" -}}
{{- $file := ternary "files/kyverno.yaml" "files/injection.yaml" (eq (toString .Values.injection) "kyverno") }}
{{- $text := .Files.Get $file | replace "podnudge:0.1.0" (include "podnudge.image" .) }}
{{- with .Values.image.pullPolicy }}
{{- $text = $text | replace "image: variables.image," (printf "image: variables.image, imagePullPolicy: %q," .) }}
{{- end }}
{{- $own := `requests: {"cpu": "1m", "memory": "8Mi"}, limits: {"memory": "32Mi"}` }}
{{- $text = $text | replace $own (include "podnudge.quantities" .Values.resources) }}
{{- $own = `requests: {"cpu": "1m", "memory": "16Mi"}, limits: {"memory": "64Mi"}` }}
{{- $text = $text | replace $own (include "podnudge.quantities" .Values.installed.resources) }}
{{- $_ := include "podnudge.env" .Values.env }}
{{- $env := "" }}
{{- range .Values.env }}
{{- if .valueFrom }}{{ fail (printf "podnudge: `injection` takes no `valueFrom` in `env`; leave out %s" .name) }}{{ end }}
{{- $env = printf "%sObject.spec.initContainers.env{name: %q, value: %s}, " $env .name (toJson (.value | default "")) }}
{{- end }}
{{- $first := `Object.spec.initContainers.env{name: "PODNUDGE_LISTEN"` }}
{{- $text | replace $first (printf "%s%s" $env $first) }}
{{- end }}

{{/* The fields of resources, as an expression of CEL. */}}
{{- define "podnudge.quantities" -}}
{{- $fields := list }}
{{- range $kind := list "requests" "limits" }}
{{- with index $ $kind }}
{{- $quantities := list }}
{{- range $name, $quantity := . }}{{ $quantities = append $quantities (printf "%q: %q" $name (toString $quantity)) }}{{ end }}
{{- $fields = append $fields (printf "%s: {%s}" $kind (join ", " $quantities)) }}
{{- end }}
{{- end }}
{{- join ", " $fields }}
{{- end }}
