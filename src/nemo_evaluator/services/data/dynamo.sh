export DYN_REQUEST_PLANE=nats NATS_SERVER="nats://$head:{nats}" ETCD_ENDPOINTS="http://$head:{etcd}"
export DYN_SKIP_SGLANG_LOG_FORMATTING=1
if [ "$rank" -eq 0 ]; then
  nats-server -js -p {nats} --store_dir "$(mktemp -d)" &
  etcd --listen-client-urls http://0.0.0.0:{etcd} --advertise-client-urls "http://$head:{etcd}" --data-dir "$(mktemp -d)" &
fi
for port in {nats} {etcd}; do until (exec 3<>/dev/tcp/$head/$port) 2>/dev/null; do sleep 1; done; done
if [ "$rank" -eq 0 ]; then python3 -m dynamo.frontend --http-port {port} & fi
