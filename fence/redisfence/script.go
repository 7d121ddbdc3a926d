// SPDX-License-Identifier: Apache-2.0

package redisfence

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// script checks and raises the mark KEYS[1] with the token ARGV[1] and then runs the commands, each given as the number of
// its words and the words. The other KEYS are there for the cluster to see.
//
// Tokens are compared as decimals of some length, not as numbers: Lua's numbers are doubles, which cannot tell
// 2^53 from its successor.
var script = redis.NewScript(`
local mark, token = redis.call('GET', KEYS[1]), ARGV[1]
if mark then
	if not string.match(mark, '^[1-9]%d*$') or #mark > 19 then
		return {'corrupt', string.sub(mark, 1, 64)}
	end
	if #mark > #token or (#mark == #token and mark > token) then
		return {'stale', mark}
	end
end
if mark ~= token then
	redis.call('SET', KEYS[1], token)
end
local answers, i = {}, 2
while i <= #ARGV do
	local words = tonumber(ARGV[i])
	answers[#answers + 1] = redis.call(unpack(ARGV, i + 1, i + words))
	i = i + words + 1
end
return {'done', answers}
`)

// maxWords bounds a command: Lua's unpack has a limit of about 8,000 values.
const maxWords = 4096

// arguments lays the commands out for the script.
func (f *Fence) arguments(w fence.Write, commands []Command) (keys []string, args []any, err error) {
	if f.tag != nil {
		if tag := f.tag(w.Resource); tag == "" || strings.ContainsAny(tag, "{}") {
			return nil, nil, fmt.Errorf("%w: its hash tag is %.100q, want one without braces", fence.ErrInvalidResource, tag)
		}
	}
	keys = []string{f.MarkKey(w.Resource)}
	args = []any{w.Token.String()}
	for i, command := range commands {
		if len(command) == 0 || len(command) > maxWords {
			return nil, nil, fmt.Errorf("redisfence: command %d has %d words, want 1 to %d", i, len(command), maxWords)
		}
		args = append(args, len(command))
		for _, word := range command {
			key, ok := word.(Key)
			if !ok {
				args = append(args, word)
				continue
			}
			if string(key) == keys[0] {
				return nil, nil, fmt.Errorf("redisfence: command %d writes to the mark %.100q", i, key)
			}
			args = append(args, string(key))
			if !slices.Contains(keys, string(key)) {
				keys = append(keys, string(key))
			}
		}
	}
	return keys, args, nil
}

// verdict reads the script's answer.
func verdict(w fence.Write, mark string, answer []any) ([]any, error) {
	if len(answer) == 2 {
		text, _ := answer[1].(string)
		switch answer[0] {
		case "done":
			answers, ok := answer[1].([]any)
			if ok {
				return answers, nil
			}
		case "stale":
			highest, err := leasehold.ParseToken(text)
			if err != nil {
				// Nineteen digits beyond the greatest token.
				return nil, fmt.Errorf("%w: %q: %w", ErrCorruptMark, mark, err)
			}
			return nil, &leasehold.StaleTokenError{Resource: w.Resource, Token: w.Token, Highest: highest}
		case "corrupt":
			return nil, fmt.Errorf("%w: %q: it holds %q", ErrCorruptMark, mark, text)
		}
	}
	return nil, errors.New("redisfence: the script's answer cannot be read, outcome unknown")
}
