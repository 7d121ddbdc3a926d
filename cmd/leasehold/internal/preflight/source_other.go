// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package preflight

func clockSource() string { return "" }
