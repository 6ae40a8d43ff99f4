# Clear the WebApp $WEBAPP in the namespace $NAMESPACE rightly: mend what keeps the
# operator from its cleanup. It runs as the ServiceAccount $OPERATOR of the namespace
# phase4-system; its roles have the same name.
set -eu

# TODO
