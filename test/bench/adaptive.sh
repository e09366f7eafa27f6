#!/usr/bin/env bash
# test/bench/adaptive.sh - the table of build/adaptive (adaptive.c), with what it was measured on. WRAP: a command in front of each part.
set -eu
cd "$(dirname "$0")/../.."
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
cat <<END
# What a tolerance buys

Written by \`make adaptive\`, $(date -u +%Y-%m-%d): $cpu, one thread, 8 heads, f32, [B,S,H,D], each call beside the plain call in turn.
\`speed\`: how many times as fast as without a tolerance; \`int16\`: the share of tiles computed from codes; \`left out\`: that of tiles none of
whose values was used; \`redone\`: rows computed again for their certificates; a second number beside the tolerance is the quantile of rows that has to keep to it; \`error\` and \`cert\`: the
largest of 512 rows against f64 loops, and the largest of all rows, as shares of the largest |v|. Data: N(0,1); a first key and neighbours
that rows look at; stretches of topics; one key a row; the second and third with q three times as long (sharp); q 100 times as long.

| data | S | D | tolerance | speed | target | int16 | left out | redone | error | cert |
|---|---|---|---|---|---|---|---|---|---|---|
END
for data in iid "sink + local" topics retrieval "sharp sink + local" "sharp topics" hopeless; do
    for dim in 64 128; do ${WRAP:-} build/adaptive --data "$data" --dim $dim; done
done
cat <<END

The same in bf16, beside plain calls of bf16, whose products are twice as fast on some processors; \`error\` has the rounding of o.

| data | S | D | tolerance | speed | target | int16 | left out | redone | error | cert |
|---|---|---|---|---|---|---|---|---|---|---|
END
for data in iid topics "sharp sink + local" "sharp topics"; do ${WRAP:-} build/adaptive --data "$data" --dim 128 --bf16 1; done
cat <<END

Decode: one token, 32 heads on 8 of keys and values, 16384 keys, D 128, an int16 cache, [B,S,H,D]; how many times as fast as dense calls on
f32, f16 and int16; \`bytes\`: of keys and values read, as a share of those of f32. Targets at 0.01: 2.5 over f32, 1.5 over f16, bytes 0.38;
at 0.001: 1.75 over f32. The calls alternate so that none finds in L3 what the one before it has read.

| data | tolerance | over f32 | over f16 | over int16 | bytes | redone | error | cert | stayed dense |
|---|---|---|---|---|---|---|---|---|---|
END
${WRAP:-} build/adaptive --decode 1
