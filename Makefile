# Everything that builds or checks Go needs the same tags: the bindings build without C only so. And the
# same -trimpath, or a fresh machine compiles everything twice.
export CGO_ENABLED ?= 0
export GOFLAGS := -trimpath -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs

BIN := bin/code-sandbox-mcp
.PHONY: build demo setup test test-unit test-go test-python test-node lint bench fuzz clean

build:
	go build -o $(BIN) .
	go build -o bin/code-sandbox-server ./cmd/code-sandbox-server

# The tour on a fresh machine: what is missing is installed, the program is compiled meanwhile, what code runs in is made, and a real
# client works on a real data set. The rest of the image, such as the browser, follows.
demo:
	(go build -o $(BIN) . && go build -o bin/tour ./examples/tour) & scripts/install-deps run && wait $$!
	$(BIN) setup --quick
	bin/tour --server $(BIN) --output output
	$(BIN) setup

setup: deps-run build
	$(BIN) setup

.PHONY: deps-run deps-test
deps-run:
	scripts/install-deps run

deps-test:
	scripts/install-deps run test

# All tests, on real Podman. What cannot run fails and says what is missing. Go's take the longest: with several jobs
# they begin first.
test: deps-test build
	$(BIN) setup
	$(MAKE) test-go test-python test-node

# With the race detector where there is the C compiler that it needs: one run with it finds what one
# without does. Nothing that is shipped is built so. PLAIN are packages whose tests take processor time in one
# goroutine: the detector has nothing to find there, and makes them ten times as slow.
RACE := $(if $(shell command -v cc),-race)
PLAIN := containers containers/supervisor/screen tools/internal/content tools/internal/render
# An emulated machine needs E2E_SLOWNESS=10 in the environment, and a longer TIMEOUT. Node's tests know it too.
# gotestsum tells in the end which tests were left out, and why. If no more than RERUNS tests of a part fail, each is run once more by
# itself: 0 is none. One that passes then is still printed as a failure, and counted as one.
TIMEOUT ?= 40m
RERUNS ?= 0
RERUN := $(if $(filter-out 0,$(RERUNS)),--rerun-fails=1 --rerun-fails-max-failures=$(RERUNS) --rerun-fails-run-root-test)
GOTESTSUM = $$(scripts/go-tool gotest.tools/gotestsum v1.13.0) --format standard-quiet $(RERUN) --packages
LIST_PLAIN := go list $(addprefix ./,$(PLAIN))
.PHONY: test-go-plain test-go-others
test-go: test-go-plain test-go-others
test-go-plain:
	$(GOTESTSUM) "$$(echo $$($(LIST_PLAIN)))" -- -timeout $(TIMEOUT)
test-go-others:
	$(if $(RACE),CGO_ENABLED=1) $(GOTESTSUM) "$$(echo $$(go list ./... | grep -vxF "$$($(LIST_PLAIN))"))" -- -timeout $(TIMEOUT) $(RACE)

# What needs nothing but Go, also on other systems.
test-unit:
	go test ./internal/fault ./internal/fetch ./internal/jsonbound ./internal/netguard ./internal/report ./internal/rpc ./internal/secrets ./internal/stdio ./internal/text \
		./sandbox/channel ./sandbox/filewire ./sql ./sql/sqlserver

# A suite of Python or Node with a failure is run whole once more where RERUNS allows one.
once-more = $(1)$(if $(filter-out 0,$(RERUNS)), || { echo "there are failures: once more"; $(1); })

test-python: bin/supervisor
	cd containers/kernel/python && $(call once-more,python3 -m unittest -q)
	cd containers/image/python && python3 -m unittest -q
	$(IN_PYTHON) $(PYTHON_IMAGE) python3 -m unittest -q test_compiled test_document_kinds test_holdings test_ipython test_losses test_sandbox_files

# What needs the packages of Python runs in the standard image, with the tree beside it.
PYTHON_IMAGE ?= $(shell podman images --format '{{.Repository}}:{{.Tag}}' localhost/code-sandbox-mcp-standard | head -1)
# A checkout that lets no other user through is mounted by its parts. With limits that a machine in a container may set, and runc where it is
# there: crun refuses some machines' cgroups.
IN_PYTHON = podman $(if $(shell command -v runc),--runtime runc) run --rm --init --network=none --ulimit nofile=1024:1024 --ulimit nproc=2048:2048 $(foreach part,bin containers,--volume $(CURDIR)/$(part):/src/$(part):ro) --workdir /src/containers/kernel/python --env E2E_SLOWNESS

# Public collections of documents, fetched into DOCUMENTS where it is empty, as document.py and as other programs read them: words lost,
# doubled and out of order. The full image has LibreOffice; DOCUMENTS_EACH files of each kind.
DOCUMENTS ?= bin/documents
.PHONY: test-documents
test-documents:
	scripts/fetch-documents $(DOCUMENTS)
	$(IN_PYTHON) --volume $(abspath $(DOCUMENTS)):/documents:ro --env DOCUMENTS=/documents --env DOCUMENTS_EACH --env DOCUMENTS_KINDS --env DOCUMENTS_TELL \
	  $(PYTHON_IMAGE) python3 -m unittest -v test_documents

# On the Node that the image has. A test that hangs fails after five minutes, and what it leaves open keeps nobody waiting.
NODE_TEST := --test --test-timeout=$(shell echo $$((300000 * $${E2E_SLOWNESS:-1}))) --test-force-exit

# A hundred forks with each row of test_forks.py, in the standard image, with the packages that it lacks put in a folder.
FORKS ?= 100
FORK_PACKAGES := xgboost opencv-python-headless numba zarr tokenizers blosc2 pyzmq
.PHONY: test-forks
test-forks: bin/supervisor
	python3 -m pip install --quiet --upgrade --target bin/fork-packages --python-version 3.13 --only-binary :all: \
	  $(foreach version,17 27 28 34,--platform manylinux_2_$(version)_$(shell uname -m)) $(FORK_PACKAGES)
	$(IN_PYTHON) --env FORKS=$(FORKS) --env PYTHONPATH=/src/bin/fork-packages $(PYTHON_IMAGE) python3 -m unittest -v test_forks

# What the tests of a kernel start. Go itself knows whether anything is to be done.
.PHONY: bin/supervisor
bin/supervisor:
	go build -o $@ ./containers/supervisor

NODE_LINT := containers/kernel/node/lint
test-node: bin/supervisor $(NODE_LINT)/node_modules
	cd containers && $(call once-more,$(CURDIR)/$(NODE_LINT)/node_modules/.bin/node $(NODE_TEST))

$(NODE_LINT)/node_modules: $(NODE_LINT)/package-lock.json
	cd $(@D) && npm ci --no-audit --no-fund
	touch $@

# What needs a Kubernetes cluster: that of KUBECONFIG, for somebody who may make namespaces. LOAD_IMAGES is a command that brings
# images of Podman's to its nodes, STORAGE_CLASS makes volumes, and RUNTIME_CLASS has pods with loopback alone.
KUBERNETES_TESTS ?= ./cluster/kubernetes ./internal/test/chart
.PHONY: test-kubernetes
test-kubernetes: build
	@test -n "$$KUBECONFIG" || { echo "KUBECONFIG is not set: name the file of a cluster's administrator"; exit 1; }
	@test -n "$$LOAD_IMAGES" || { echo "LOAD_IMAGES is not set: name a command that brings images from Podman to the cluster's nodes"; exit 1; }
	@command -v kubectl >/dev/null || { echo "kubectl is not installed"; exit 1; }
	@kubectl version >/dev/null || { echo "the cluster does not answer"; exit 1; }
	CODE_SANDBOX_KUBERNETES=1 go test -p 1 -count=1 -timeout $(TIMEOUT) $(KUBERNETES_TESTS)
	CODE_SANDBOX_KUBERNETES=1 go test -count=1 -timeout $(TIMEOUT) -run '^TestPods' ./internal/test/e2e

# First uses of twenty packages, installed from the index that `serve` takes. It prints a table.
.PHONY: test-packages
test-packages: deps-run build
	$(BIN) setup
	CODE_SANDBOX_PACKAGES=1 go test -count=1 -timeout $(TIMEOUT) -v ./internal/test/packages

# Cases of the Oils project's spec tests as runs and as scripts, from a checkout of github.com/oils-for-unix/oils. CASES names some.
BASH_SUITE ?= ../oils/spec
.PHONY: test-bash-suite
test-bash-suite: bin/supervisor
	image=$${PYTHON_IMAGE:-$$(podman images --format '{{.Repository}}:{{.Tag}}' localhost/code-sandbox-mcp-standard | head -1)} && \
	podman run --rm --init --network=none --volume $(CURDIR):/src:ro --volume $(abspath $(BASH_SUITE)):/spec:ro $$image \
	  python3 /src/containers/supervisor/bashkernel/suite.py /src/bin/supervisor /spec $(CASES)

UV_VERSION := 0.13.9
UV := bin/uv-$(UV_VERSION)
.PHONY: uv
uv: $(UV)/bin/uv
$(UV)/bin/uv:
	python3 -m venv $(UV) && $(UV)/bin/pip install --quiet uv==$(UV_VERSION)

# The programs of examples/python with a scripted model, each in an environment of its own; CLIENTS names some. It needs the images, and
# prints the table of docs/frameworks.md.
.PHONY: test-clients
test-clients: deps-test build $(UV)/bin/uv
	$(BIN) setup
	PATH="$(CURDIR)/$(UV)/bin:$$PATH" python3 internal/test/clients/python/trial.py $(BIN) $(CLIENTS)

# Workers of hosted agents with scripted control planes: their keys are looked for in twelve places, and then planted there.
.PHONY: test-workers
test-workers: deps-test build
	$(BIN) setup
	python3 -m venv bin/workers && bin/workers/bin/pip install --quiet aiohttp==3.14.5 anthropic==2.14.0
	for worker in codex claude; do for plant in "" --plant; do \
	  bin/workers/bin/python internal/test/worker/trial.py $(BIN) $$worker $$plant || exit 1; done; done

# Frameworks with the lines of docs/frameworks.md, and suites that others wrote for sandboxes, by E2B's API and MCP; STRANGERS names some. It
# needs the images, fetches the vendor's suites, and fails where the page's table says otherwise.
.PHONY: test-strangers
test-strangers: deps-test build $(UV)/bin/uv
	$(BIN) setup
	PATH="$(CURDIR)/$(UV)/bin:$$PATH" python3 internal/test/strangers/strangers.py bin/code-sandbox-server $(STRANGERS)

bench: deps-test build
	$(BIN) setup
	go run ./internal/test/bench --server $(BIN)

# Thirty analyses of forty turns over data that packages ship, with rollbacks, checkpoints, copies, killed kernels and servers, and sleep: each
# state is compared with that of the same turns run straight through. Then faults are planted, and each has to be found. ANALYSES names some.
STATES = PATH="$(CURDIR)/$(UV)/bin:$$PATH" python3 internal/test/states/states.py $(BIN)
.PHONY: bench-states
bench-states: deps-test build $(UV)/bin/uv
	$(BIN) setup
	$(STATES) $(ANALYSES)
	$(STATES) --plant groups:gapminder

# Every fuzz target for a while; what they find becomes a seed.
FUZZTIME ?= 20s
fuzz:
	for file in $$(grep -rl '^func Fuzz' --include='*_test.go' .); do \
		for target in $$(grep -o '^func Fuzz[A-Za-z0-9]*' $$file | cut -c 6-); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
		done; \
	done

# All that a release has, in dist/, and a look at it. The tests make this machine's part alone.
.PHONY: release-snapshot
release-snapshot: deps-test
	scripts/release --snapshot
	RELEASE_DIST=$(CURDIR)/dist go test -count=1 ./internal/test/release

# How the Go packages read: words of comments, functions, knots of files.
.PHONY: house
house:
	go run ./internal/test/house

lint: deps-test $(NODE_LINT)/node_modules
	scripts/lint

# The plain manifests, as the Helm chart makes them, and a look at both: their API is that of three versions of Kubernetes.
.PHONY: manifests lint-chart
DEPLOY := docs/deploy/kubernetes
manifests:
	helm=$$(scripts/go-tool helm.sh/helm/v3/cmd/helm v3.18.6) && \
	{ sed -n '/^#/!q;p' $(DEPLOY)/manifests.yaml; \
	  $$helm template code-sandbox-mcp $(DEPLOY)/chart --namespace code-sandbox-mcp --kube-version 1.35.4 \
	    --set token.existingSecret=code-sandbox-mcp-token; } >$(DEPLOY)/manifests.new
	mv $(DEPLOY)/manifests.new $(DEPLOY)/manifests.yaml

lint-chart:
	CODE_SANDBOX_SCHEMAS=1 go test -count=1 ./internal/test/chart

clean:
	rm -rf bin output dist

# The Python image's packages anew: the newest of those in pyproject.toml that have wheels for Linux, and all they need.
LOCK := uv pip compile --upgrade --python-version 3.13 --only-binary :all: --no-binary odfpy
.PHONY: lock
lock: $(UV)/bin/uv
	cd containers/image/python && PATH=$(CURDIR)/$(UV)/bin:$$PATH && \
	$(LOCK) --quiet --generate-hashes --custom-compile-command 'make lock' --python-platform x86_64-manylinux_2_40 -o requirements.lock pyproject.toml && \
	$(LOCK) --quiet --python-platform aarch64-manylinux_2_40 -c requirements.lock pyproject.toml >/dev/null && \
	echo pypandoc-binary | $(LOCK) --quiet --generate-hashes --custom-compile-command 'make lock' -o ../standard/pandoc.lock -

# Process 1 of every container, for each kind of processor, as it is committed: the same source makes the same bytes.
.PHONY: supervisor
supervisor:
	scripts/build-supervisor containers/supervisor/build
	zstd --ultra -22 --quiet --force --rm containers/supervisor/build/linux-amd64 containers/supervisor/build/linux-arm64

# Python's kernel as it is committed, compiled by the Python of the standard image.
.PHONY: compiled
compiled:
	$(IN_PYTHON) $(PYTHON_IMAGE) python3 test_compiled.py > bin/python.tar.gz
	mv bin/python.tar.gz containers/kernel/
