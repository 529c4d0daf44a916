#!/bin/sh
# Brings back what backup.sh has written, for a server that does not run: restore.sh FOLDER
#
# SANDBOX_STATE_DIR is the state folder, if it is not the usual one; nothing may be there. It has to have the path that it had, and the
# machine /etc/machine-id and the user the number: the volumes belong to these. Volumes that are there stay as they are. It needs jq.
set -eu
umask 077
from=$1
state=${SANDBOX_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/code-sandbox-mcp}
mkdir -p "$(dirname "$state")"
mkdir "$state"
# First the files: a server that comes too early would make sessions without them.
for about in "$from"/volumes/*.json; do
	[ -e "$about" ] || continue
	volume=$(jq -r '.[0].Name' "$about")
	if podman volume exists "$volume"; then
		echo "$volume is there, and stays as it is" >&2
		continue
	fi
	set --
	for label in $(jq -r '.[0].Labels | to_entries[] | "\(.key)=\(.value)"' "$about"); do
		set -- "$@" --label "$label"
	done
	podman volume create "$@" --opt "o=uid=$(jq -r '.[0].UID' "$about"),gid=$(jq -r '.[0].GID' "$about")" "$volume" >/dev/null
	gzip -dc "$from/volumes/$volume.tar.gz" | podman volume import "$volume" -
done
tar -C "$state" -xpzf "$from/state.tar.gz"
