{{- /* What a schema cannot say: values that need each other. */ -}}
{{- define "beamwright.checks" -}}
{{- $v := .Values }}
{{- if and (eq $v.models.source "claim") (not $v.models.claim.name) }}
{{- fail "models.source is 'claim': set models.claim.name to the PersistentVolumeClaim that holds <model>/<version>/" }}
{{- end }}
{{- if and (eq $v.models.source "image") (not $v.models.image.reference) }}
{{- fail "models.source is 'image': set models.image.reference to the OCI artefact that holds <model>/<version>/" }}
{{- end }}
{{- if eq $v.models.source "initContainer" }}
{{- if not $v.models.initContainer.image }}
{{- fail "models.source is 'initContainer': set models.initContainer.image, whose command copies the models to /models" }}
{{- end }}
{{- if not $v.models.initContainer.command }}
{{- fail "models.source is 'initContainer': set models.initContainer.command, which copies the models to /models" }}
{{- end }}
{{- end }}
{{- if and (ne $v.models.source "claim") (eq $v.models.control "poll") }}
{{- fail (printf "models.control is 'poll', but models of source '%s' never change in a pod; only those of a claim do" $v.models.source) }}
{{- end }}
{{- if and $v.tls.clientCaSecretName (not $v.tls.secretName) }}
{{- fail "tls.clientCaSecretName needs tls.secretName: the server must have a certificate before it asks for others'" }}
{{- end }}
{{- if and $v.tokens.secretName (not $v.tls.secretName) (not $v.tokens.inClear) }}
{{- fail "tokens.secretName needs tls.secretName, or tokens.inClear: true where something else encrypts: the server does not take tokens in clear text" }}
{{- end }}
{{- if and $v.tokens.inClear (not $v.tokens.secretName) }}
{{- fail "tokens.inClear is true, but tokens.secretName is empty: there are no tokens to take" }}
{{- end }}
{{- if $v.autoscaling.enabled }}
{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) }}
{{- fail (printf "autoscaling.minReplicas is %d, more than autoscaling.maxReplicas, %d" (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) }}
{{- end }}
{{- if and (eq $v.autoscaling.kind "keda") (not $v.autoscaling.prometheusAddress) }}
{{- fail "autoscaling.kind is 'keda': set autoscaling.prometheusAddress to the Prometheus that has the server's metrics" }}
{{- end }}
{{- end }}
{{- if $v.canary.enabled }}
{{- if and (or (not $v.canary.tag) (eq $v.canary.tag ($v.image.tag | default .Chart.AppVersion))) (not $v.canary.settings) }}
{{- fail "canary.enabled is true, but the canary is what the others are: set canary.tag or canary.settings" }}
{{- end }}
{{- $mine := get $v.canary.settings "precision" | default (get $v.settings "precision") | default "model" }}
{{- $others := get $v.settings "precision" | default "model" }}
{{- if and (ne $mine $others) (not $v.canary.allowOtherNumerics) }}
{{- fail (printf "the canary has precision '%s', the others '%s': the same request would get answers that depend on the replica. Set canary.allowOtherNumerics: true if that is meant" $mine $others) }}
{{- end }}
{{- end }}
{{- if and $v.podDisruptionBudget.enabled (not $v.autoscaling.enabled) (le (int $v.replicas) (int $v.podDisruptionBudget.maxUnavailable)) (gt (int $v.replicas) 1) }}
{{- fail (printf "podDisruptionBudget.maxUnavailable is %d of %d replicas: a drained node could take all of them" (int $v.podDisruptionBudget.maxUnavailable) (int $v.replicas)) }}
{{- end }}
{{- end }}
