#!/usr/bin/env bash
# Two mock servers of other makers: on each API they speak a run with tools is killed and resumed,
# and LLMock breaks the line in seven ways and then judges what the program did about it. Installs
# both (50 MB) into target/mocks. The program's path may be given.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/release/rethread}")
home=$PWD/target/mocks
if [ ! -e "$home/ok" ]; then
  python3 -m venv "$home/llmock"
  "$home/llmock/bin/pip" install -q llmock==0.2.2
  npm install --silent --no-audit --no-fund --prefix "$home/aimock" @copilotkit/aimock@1.43.0
  touch "$home/ok"
fi
exec "$home/llmock/bin/python" tests/mocks/drive.py "$program" "$home"
