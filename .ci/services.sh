#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The servers that the fences are tested on, on Debian and as root.
#
#	bash .ci/services.sh start    install what is missing and say what is there
#	bash .ci/services.sh stop     nothing to do: see below
#
# No server runs between tests. Each test starts private ones from the installed binaries, on loopback ports and with data in
# a temporary directory, kills them when it wants to see what a crash leaves, and ends them with itself.

set -euo pipefail

packages=(postgresql mariadb-server redis-server)

start() {
	local missing=() p
	for p in "${packages[@]}"; do
		dpkg-query --show --showformat='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
	done
	if [[ ${#missing[@]} -gt 0 ]]; then
		apt-get update -qq
		# A policy of no services: the packages' own instances are not wanted and would hold the usual ports.
		local policy=/usr/sbin/policy-rc.d made=""
		if [[ ! -e $policy ]]; then
			printf '#!/bin/sh\nexit 101\n' >"$policy"
			chmod +x "$policy"
			made=yes
		fi
		DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "${missing[@]}"
		[[ -z $made ]] || rm -f "$policy"
	fi
	dpkg-query --show --showformat='${Package} ${Version}\n' "${packages[@]}"
}

case "${1:-}" in
start) start ;;
stop) ;;
*)
	sed -n '3,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
