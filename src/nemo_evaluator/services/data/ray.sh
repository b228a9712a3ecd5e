if [ "$rank" -gt 0 ]; then
  until (exec 3<>/dev/tcp/$head/{port}) 2>/dev/null; do sleep 1; done
  exec {ray} start --address="$head:{port}" --block
fi
{ray} start --head --node-ip-address="$head" --port={port} --include-dashboard=false --disable-usage-stats
until [ "$({ray} status --address="$head:{port}" | grep -cE '^ *[0-9]+ node_')" -ge {nodes} ]; do sleep 1; done
export RAY_ADDRESS="$head:{port}"
