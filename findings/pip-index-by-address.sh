#!/usr/bin/env bash
# pip 25.1.1, which Debian 13 has, cannot use an https index that is named by an IP address, even where the certificate
# has that address: it ends with a traceback of its TLS library. pip 26.3 can.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=index -addext subjectAltName=IP:127.0.0.1 2>/dev/null
mkdir -p index/none
cat >serve.py <<'P'
import functools, http.server, ssl
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="index")
server = http.server.HTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
open("port.new", "w").write(str(server.server_port))
import os; os.rename("port.new", "port")
server.serve_forever()
P
python3 serve.py >/dev/null 2>&1 &
server=$!
until [ -e port ]; do sleep 0.1; done
python3 -m venv venv
for version in 25.1.1 26.3; do
	venv/bin/python -m pip install --quiet --disable-pip-version-check "pip==$version"
	output=$(env -u PIP_CERT -u PIP_FIND_LINKS venv/bin/pip download --disable-pip-version-check --no-deps --retries 0 --cert cert.pem \
		--index-url "https://127.0.0.1:$(cat port)/" none 2>&1) && { echo "a package that is not there was downloaded"; exit 1; }
	seen=$(grep -E '^(ValueError|ERROR: No matching)' <<<"$output" | tail -n 1)
	echo "pip $version: $seen"
	case $version in
	25.1.1) expected='ValueError: check_hostname requires server_hostname' ;;
	*) expected='ERROR: No matching distribution found for none' ;;
	esac
	[ "$seen" = "$expected" ] || { echo "expected: $expected"; exit 1; }
done
