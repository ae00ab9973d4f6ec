#!/usr/bin/env bash
# An agent over HTTP: report each call, then ask whether there is something to obey: in mode live; in shadow nothing is in force.  usage: curl.sh SESSION TOOL ARGS_JSON OUTCOME
set -euo pipefail
URL=${LOOPWARDEN_URL:-http://localhost:9464}
curl -fsS "$URL/v1/events" -H 'content-type: application/json' --data-binary @- <<JSON
{"id":"$(cat /proc/sys/kernel/random/uuid)","kind":"tool","session_id":"$1","tool":"$2","args":$3,"outcome":"$4"}
JSON
# The decision is committed some milliseconds after that answer: wait a moment for it. What takes longer is seen at the next call.
curl -fsS "$URL/v1/commands?session_id=$1&after=latest&wait=200ms" >/dev/null
curl -fsS "$URL/v1/state/$1"
