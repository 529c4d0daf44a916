#!/bin/sh
# Installs the packages of the Python image: PyPI's, as requirements.lock has them, or Debian's where that fails. Then
# the file named by the first argument says why, in the words of the installer.
#
# It runs in the image's build, and needs strip. It fails only when Debian's packages cannot be had either.
set -eu
cd "$(dirname "$0")"
why_not=$1
packages=/usr/local/lib/python3.13/dist-packages
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 UV_CACHE_DIR=/var/tmp/uv UV_NO_PROGRESS=1 UV_HTTP_TIMEOUT=30

remove_tests() { find "$@" -type d -name tests -prune -exec rm -rf {} +; }

# uv comes by venv's pip into a folder that is thrown away: the lock's own uv, checked as everything else is.
from_pypi() {
	awk '/^[^ ]/ { uv = /^uv==/ } uv' requirements.lock >/var/tmp/uv.lock &&
		PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) python3 -m pip install --target /var/tmp/first \
			--progress-bar off --retries 1 --timeout 10 --require-hashes -r /var/tmp/uv.lock &&
		/var/tmp/first/bin/uv pip install --python /usr/bin/python3 --break-system-packages --require-hashes \
			--only-binary :all: --no-binary odfpy --build-constraints requirements.lock -r requirements.lock
}

# Tests go, but for what packages import of them; so do symbols for debuggers, sources in C, parts for Jupyter, BokehJS for its developers
# and in its long form, types for checkers of types, of Arrow what reaches servers, and the packages that PyTables asks for without
# a need: it has that library in it. Libraries named by a hash (*.libs) stay as they are.
shrink() {
	remove_tests fsspec google/genai matplotlib mpmath networkx pandas pyarrow scipy sklearn statsmodels sympy
	find . -path '*/tests/*' \( -name 'test_*.py' ! -name test_suite.py -o -name data \) -prune -exec rm -rf {} +
	find . -path ./jedi -prune -o -name '*.pyi' -exec rm {} +
	find . -path ./numpy -prune -o -type f \( -name '*.a' -o -name '*.c' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.pyx' \) -exec rm {} +
	uv pip uninstall --python /usr/bin/python3 --break-system-packages blosc2 ndindex
	rm -rf /usr/local/share/jupyter /usr/local/share/xyzservices plotly/labextension plotly/package_data/widgetbundle.js jedi/third_party/django-stubs jedi/third_party/typeshed/stubs/* \
		bokeh/server/static/js/lib bokeh/server/static/js/compiler.js joblib/test sqlalchemy/testing tornado/test /usr/lib/python3.13/test \
		pyarrow/include pyarrow/src pyarrow/*flight* pyarrow/*_s3*
	for script in bokeh/server/static/js/*.min.js; do ln -sf "${script##*/}" "${script%.min.js}.js"; done
	for library in pyarrow/libarrow_python*.so.*.*; do # a wheel has no links, so it has each three times
		short=${library%.*.*} && ln -sf "${library##*/}" "$short" && ln -sf "${library##*/}" "${short%.*}"
	done
	find . -path './*.libs' -prune -o -type f -name '*.so*' -print0 | xargs -0 -r -n 8 -P "$(nproc)" strip --strip-unneeded
}

# reason prints the line of the installer's output that names a cause, else the last ones. pip ends with "no matching
# distribution" also when it has reached no index at all.
reason() {
	grep -iE 'could not fetch|connection broken|do not match|mismatch|caused by|^ *× .* because |^ *error: [^cn]' /var/tmp/error >/var/tmp/causes ||
		tail -n 3 /var/tmp/error | tr -s '\n ' ' ' >/var/tmp/causes
	tail -n 1 /var/tmp/causes | sed -E 's/.*(broken by|[Cc]aused by:?) //; s/<[^>]*>: //' | cut -c -300
}

from_debian() {
	apt-get update
	apt-get install -y --no-install-recommends \
		-o Dpkg::Options::='--path-exclude=/usr/lib/python3/dist-packages/*-stubs/*' \
		-o Dpkg::Options::='--path-exclude=/usr/lib/python3/dist-packages/types_*' \
		-o Dpkg::Options::='--path-exclude=/usr/share/unicode/*' \
		python3-pip ipython3 \
		python3-numpy python3-pandas python3-scipy python3-sklearn python3-statsmodels \
		python3-matplotlib python3-seaborn python3-plotly python3-pil \
		python3-networkx python3-sympy \
		python3-jinja2 python3-sqlalchemy python3-numexpr python3-bottleneck python3-fastcluster python3-lark \
		python3-openpyxl python3-xlsxwriter python3-xlrd python3-odf python3-docx python3-pypdf python3-reportlab \
		python3-tables python3-h5py python3-pyreadstat python3-zstandard python3-fsspec \
		python3-requests python3-httpx python3-rich python3-pydantic \
		python3-bs4 python3-html5lib python3-lxml python3-lxml-html-clean python3-cssselect \
		python3-yaml python3-tabulate python3-tqdm python3-cryptography python3-psutil python3-pytest \
		libopenblas0-serial # without threads of its own, as OPENBLAS_NUM_THREADS=1 has it for PyPI's
	rm -rf /var/lib/apt/lists/*
	cd /usr/lib/python3/dist-packages
	remove_tests fsspec networkx pandas scipy sklearn statsmodels sympy
}

if echo "installing the packages of requirements.lock" && from_pypi >/var/tmp/error 2>&1; then
	cd $packages
	shrink
else
	rm -rf "$packages" /usr/local/bin/* /var/tmp/uv
	cat /var/tmp/error
	if grep -qi 'no space left' /var/tmp/error; then exit 1; fi # nor is there any for Debian's
	echo "PyPI's packages cannot be installed; Debian's are"
	reason >"$why_not"
	from_debian
fi
rm -rf /var/tmp/* /tmp/uv-*.lock
