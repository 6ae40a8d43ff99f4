# A list of kubectl commands, and what is found printed as JSON.
set -eu

line() {
  printf '{"why":"%s","resource":"%s","namespace":"%s","object":"%s","finalizer":"%s","condition":"%s"}\n' "$@"
}

uid=$(kubectl get namespace "$NAMESPACE" -o jsonpath='{.metadata.uid}' --ignore-not-found)
asked=$(kubectl get namespace "$NAMESPACE" -o jsonpath='{.metadata.deletionTimestamp}' --ignore-not-found)
if [ -n "$uid" ] && [ "$uid" != "$NAMESPACE_UID" ]; then
  line recreated namespaces "" "$NAMESPACE" "" ""
  exit 0
fi
if [ -z "$asked" ]; then
  line nothing "" "" "" "" ""
  exit 0
fi

message() {
  kubectl get namespace "$NAMESPACE" \
    -o jsonpath="{.status.conditions[?(@.type=='$1')].status} {.status.conditions[?(@.type=='$1')].message}" |
    sed -n 's/^True //p'
}

discovery=$(message NamespaceDeletionDiscoveryFailure)
if [ -n "$discovery" ]; then
  kubectl get apiservices \
    -o jsonpath='{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Available")].status}{"\n"}{end}' |
    while read -r name available; do
      [ "$available" = True ] ||
        line discovery apiservices "" "$name" "" NamespaceDeletionDiscoveryFailure
    done
fi

content=$(message NamespaceDeletionContentFailure)
if [ -n "$content" ]; then
  webhook=$(printf '%s' "$content" | sed -n 's/.*failed calling webhook "\([^"]*\)".*/\1/p')
  kubectl get validatingwebhookconfigurations \
    -o jsonpath='{range .items[*]}{.metadata.name} {.webhooks[*].name}{"\n"}{end}' |
    while read -r name hooks; do
      case " $hooks " in
        *" $webhook "*) line refused validatingwebhookconfigurations "" "$name" "" NamespaceDeletionContentFailure ;;
      esac
    done
fi

# resource namespace condition: a line for each object of it that is being deleted and held.
held() {
  kubectl get "$1" -n "$2" \
    -o go-template='{{range .items}}{{if .metadata.deletionTimestamp}}{{.metadata.name}} {{range .metadata.finalizers}}{{.}},{{end}} {{with .status}}{{with .waitingFor}}{{.resource}} {{.namespace}} {{.name}}{{end}}{{end}}{{"\n"}}{{end}}{{end}}' |
    while read -r name finalizers to where target; do
      [ -z "${4:-}" ] || [ "$name" = "$4" ] || continue
      for finalizer in $(printf '%s' "$finalizers" | tr , ' '); do
        line "$(why "$1" "$2" "$name")" "$1" "$2" "$name" "$finalizer" "$3"
      done
      [ -z "${target:-}" ] || held "$to" "$where" "" "$target"
    done
}

# Whether the CRD still serves the version through which the object was made.
why() {
  used=$(kubectl get "$1" "$3" -n "$2" --show-managed-fields \
    -o jsonpath='{.metadata.managedFields[*].apiVersion}')
  served=$(kubectl get crd "$1" --ignore-not-found -o jsonpath='{.spec.versions[?(@.served==true)].name}')
  for version in $used; do
    case " $served " in
      *" ${version##*/} "*) ;;
      *) [ -z "$served" ] || { echo version; return; } ;;
    esac
  done
  echo finalizer
}

remaining=$(message NamespaceContentRemaining)
for resource in $(printf '%s' "$remaining" | grep -o '[^ ]* has [0-9]*' | sed 's/ has.*//; s/\.$//'); do
  held "$resource" "$NAMESPACE" NamespaceContentRemaining
done

if [ -z "$discovery$content$remaining" ]; then
  pods=$(kubectl get pods -n "$NAMESPACE" -o jsonpath='{.items[*].metadata.name}')
  for pod in $pods; do
    line grace pods "$NAMESPACE" "$pod" "" ""
  done
  if [ -z "$pods" ]; then
    for finalizer in $(kubectl get namespace "$NAMESPACE" -o jsonpath='{.metadata.finalizers[*]}'); do
      line finalizer namespaces "" "$NAMESPACE" "$finalizer" ""
    done
  fi
fi
