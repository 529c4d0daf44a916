# Everything that builds or checks Go needs the same tags: the bindings build without C only so.
export CGO_ENABLED ?= 0
export GOFLAGS := -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs

BIN := bin/code-sandbox-mcp
TOOLS := $(CURDIR)/.tools

.PHONY: build demo setup test test-go test-python test-node lint bench fuzz clean

build:
	go build -trimpath -o $(BIN) .

# The tour on a fresh machine: what is missing is installed, the images are made, and a real client
# works on a real data set.
demo: deps-run build
	$(BIN) setup
	go run ./examples/tour --server $(BIN) --output output

setup: deps-run build
	$(BIN) setup

.PHONY: deps-run deps-test
deps-run:
	scripts/install-deps run

deps-test:
	scripts/install-deps run test

# All tests, on real Podman. What cannot run fails and says what is missing.
test: deps-test build
	$(BIN) setup
	$(MAKE) test-python test-node test-go

test-go:
	go test ./...

test-python:
	cd containers/python && python3 -m unittest -q

test-node:
	cd containers/node && node --test

bench: build
	$(BIN) setup
	go run ./internal/bench --server $(BIN)

fuzz:
	scripts/fuzz

lint: deps-test
	scripts/lint

clean:
	rm -rf bin output
