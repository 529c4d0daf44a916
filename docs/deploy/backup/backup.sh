#!/bin/sh
# Writes the state folder of a server and the files of its sessions to a new folder: backup.sh FOLDER
#
# SANDBOX_STATE_DIR is the state folder, if it is not the usual one. FILTER says which of Podman's volumes are the sessions', if
# not all that have been made by a server. The folder then has tokens and whatever the sessions have: keep it as the state folder.
set -eu
umask 077
to=$1
state=${SANDBOX_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/code-sandbox-mcp}
mkdir "$to" "$to/volumes"
# First what is known of the sessions: files of one that is not known are found, where the other way round they are lost.
tar -C "$state" --exclude=./servers -czf "$to/state.tar.gz" .
podman volume ls --quiet --filter "${FILTER:-label=code-sandbox-mcp.session}" | while read -r volume; do
	podman volume inspect "$volume" >"$to/volumes/$volume.json"
	podman volume export "$volume" | gzip -1 >"$to/volumes/$volume.tar.gz"
	gzip -t "$to/volumes/$volume.tar.gz"
done
