# SPDX-License-Identifier: Apache-2.0
#
# The gate. Nothing here is needed to use or to test the module; that takes Go alone:
#
#	go run ./cmd/leasehold demo
#	go test -shuffle=on ./...
#
#	make check    formatting, vet, lint, fixes, tidiness, house rules, other platforms
#	make test     every module's tests under the race detector (needs a C compiler)
#	make simulate N schedules of faults from SEED: the invariants must hold
#	make mutants  every rule broken once: the fast tests must notice
#	make fuzz     every fuzz target for FUZZTIME
#	make bench    Leasehold beside etcd's concurrency package: tables and plots in dist/bench, in under 10 minutes
#	make microbench   every Go benchmark COUNT times; compare two outputs with make benchstat OLD=... NEW=...

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

GO ?= go
TIMEOUT ?= 20m
FUZZTIME ?= 10s
COUNT ?= 6
BENCH ?= .
N ?= 2000
# Ten thousand seeds for each day, so that every day tests others, and a day's are known.
SEED ?= $(shell date -u +%Y%m%d)0000

# Every module of the repository, the root first. tools/ holds no code: its go.mod only pins the tools.
MODULES := $(sort $(patsubst %/,%,$(dir $(shell find . -name go.mod -not -path './tools/*' -not -path '*/testdata/*'))))
TOOL := $(GO) tool -modfile=$(CURDIR)/tools/go.mod

# All checks of staticcheck. There is no list of exclusions; a single line that has a reason says so with //lint:ignore.
STATICCHECK := -checks all

# each runs a command in every module and names the module, as the commands' own output does not.
each = set -e; for m in $(MODULES); do echo "-- $$m: $(1)"; (cd "$$m" && $(1)); done

.PHONY: check
check: fmt vet lint fix tidy house cross

.PHONY: fmt
fmt:
	@echo "-- gofumpt -l"
	@unformatted="$$($(TOOL) gofumpt -l .)"; \
	if [[ -n "$$unformatted" ]]; then echo "not formatted (gofumpt -w):"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet:
	@$(call each,$(GO) vet ./...)

.PHONY: lint
lint:
	@$(call each,$(TOOL) staticcheck $(STATICCHECK) ./...)

.PHONY: fix
fix:
	@$(call each,$(GO) fix -diff ./...)

.PHONY: tidy
tidy:
	@$(call each,$(GO) mod tidy -diff)
	@echo "-- ./tools: $(GO) mod tidy -diff"; cd tools && $(GO) mod tidy -diff

.PHONY: house
house:
	@echo "-- house rules"
	@$(GO) test -count=1 ./internal/house

# What users build must build where they are. The clock has code of its own for every platform, so it is vetted there with
# its tests, also where it has nothing better than Go's time.
COMMANDS := $(if $(wildcard cmd),./cmd/...)

.PHONY: cross
cross:
	@set -e; for target in linux/arm64 darwin/arm64 windows/amd64; do \
		echo "-- $$target: $(GO) build . $(COMMANDS)"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) build -o /dev/null . $(COMMANDS); \
	done
	@set -e; for target in linux/386 darwin/arm64 windows/amd64 freebsd/amd64; do \
		echo "-- $$target: $(GO) vet ./internal/clock"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) vet ./internal/clock; \
	done

.PHONY: test
test:
	@$(call each,$(GO) test -race -shuffle=on -timeout=$(TIMEOUT) ./...)

# One process for each core. Failing schedules are printed and written to dist/simulation.
.PHONY: simulate
simulate:
	@echo "-- $(N) schedules from seed $(SEED)"
	@$(GO) run ./internal/simulation/cmd -n $(N) -seed $(SEED)

# Breaks each rule of the protocol in an overlay of the tree, and prints which test noticed. ONLY= picks some by rule or words.
.PHONY: mutants
mutants:
	@$(GO) test -count=1 -timeout=60m -run=Killed -v ./internal/mutants -kill -only='$(ONLY)'

# One target at a time, because go test fuzzes no more. Targets are found in the sources: to ask every package for its own would
# mean to link all of their tests. A failing input is written to the package's testdata, to be kept there.
SOURCES := {{$$p := .}}{{range .TestGoFiles}}{{$$p.ImportPath}} {{$$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$p.ImportPath}} {{$$p.Dir}}/{{.}}{{"\n"}}{{end}}

.PHONY: fuzz
fuzz:
	@set -e; for m in $(MODULES); do ( \
		cd "$$m"; \
		sources="$$($(GO) list -f '$(SOURCES)' ./...)"; \
		while read -r p file; do \
			[[ -n "$$file" ]] || continue; \
			for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
				echo "-- $$p: $$f"; \
				$(GO) test -run='^$$' -fuzz="^$$f$$" -fuzztime=$(FUZZTIME) "$$p" </dev/null; \
			done; \
		done <<<"$$sources"; \
	); done

# BENCHFLAGS= chooses axes, cluster and length; BENCHFLAGS=-help lists them.
.PHONY: bench
bench:
	@cd bench && $(GO) run . -out=../dist/bench $(BENCHFLAGS)

.PHONY: microbench
microbench:
	@$(call each,$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) ./...)

.PHONY: benchstat
benchstat:
	@$(TOOL) benchstat $(OLD) $(NEW)
