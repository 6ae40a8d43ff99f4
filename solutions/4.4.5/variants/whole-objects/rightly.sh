# The Role as a whole, as it should have been.
set -eu

kubectl apply -f - <<END
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: $OPERATOR, namespace: dns}
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, patch, delete]
END
