// SPDX-License-Identifier: Apache-2.0

package house

// Exceptions are the places of this repository that break a rule for a reason.
var Exceptions = []Exception{}
