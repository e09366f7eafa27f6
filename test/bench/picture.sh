#!/usr/bin/env bash
# test/bench/picture.sh [SVG] - `make picture`: draws README.md's picture, test/results/peak.svg, from the tables of
# test/results/peers.md: the share of the FMA peak that each library reaches. Needs gnuplot. TERMINAL names another of
# gnuplot's terminals.
set -eu
cd "$(dirname "$0")/../.."
table=test/results/peers.md out=${1:-test/results/peak.svg}
data=build/picture.dat
mkdir -p build

# One block for each pass: the names of the series, then a line for each case. A table has either a column `fraction` after
# each series, or one row for each backend with a column `of peak`.
awk -F ' *[|] *' -v OFS='\t' '
    function quoted(s) { return "\"" s "\"" }
    function put(pass, what, name, share) {
        if (share !~ /^[0-9.]+$/) return
        if (!((pass, what) in seen)) { seen[pass, what]; cases[pass] = cases[pass] "\n" what }
        if (!(name in known)) { known[name]; series[++n] = name }
        value[pass, what, name] = share
    }
    BEGIN {
        long["fwd"] = "forward"; long["bwd"] = "backward"; long["flash"] = "attn.h"; long["torch"] = "PyTorch"
        long["openblas"] = "OpenBLAS"; long["onnx"] = "ONNX Runtime"
    }
    /f32 FMA peak/ && !machine { machine = $0; sub(/^# attn_bench: /, "", machine); sub(/GFLOP\/s.*/, "GFLOP/s", machine); sub(/thread\(s\)/, "thread", machine) }
    !/^\|/ { head = 0; next }
    !head { head = 1; delete at; columns = NF; for (i = 2; i < NF; i++) { column[i] = $i; at[$i] = i }; next }
    /^\|[-| :]*$/ || !("pass" in at) { next }
    {
        what = $at["case"]; pass = $at["pass"]; if (pass in long) pass = long[pass]
        if ("dtype" in at) what = $at["dtype"] " " what
        gsub(/,|B1 |H8 |bhsd/, "", what); sub(/float/, "f", what); sub(/bf?loat/, "bf", what)
        sub(/S ?/, "", what); sub(/ D ?/, " x ", what); sub(/ +$/, "", what)
        for (i = 3; i < columns; i++) if (column[i] == "fraction") put(pass, what, column[i - 1], $i)
        if (("of peak" in at) && $at["backend"] != "standard") {
            name = $at["backend"]; put(pass, what, name in long ? long[name] : name, $at["of peak"])
        }
    }
    END {
        if (!n) { print "no shares of the peak in " FILENAME > "/dev/stderr"; exit 1 }
        print "# " machine
        for (p = 1; p <= 2; p++) {
            pass = p == 1 ? "forward" : "backward"
            line = quoted(pass); for (s = 1; s <= n; s++) line = line OFS quoted(series[s]); print line
            count = split(substr(cases[pass], 2), list, "\n")
            for (c = 1; c <= count; c++) {
                line = quoted(list[c])
                for (s = 1; s <= n; s++) line = line OFS ((pass, list[c], series[s]) in value ? value[pass, list[c], series[s]] : "-")
                print line
            }
            print "\n"
        }
    }' $table >$data

# No background, and greys and colours that can be read on white and on black.
machine=$(sed -n '1s/^# //p' $data) series=$(awk -F '\t' 'NR == 2 { print NF - 1 }' $data)
rows=$(awk '/^$/ { exit } { n++ } END { print n - 2 }' $data)
gnuplot <<GNUPLOT
set terminal ${TERMINAL:-svg} size 860,$((130 + rows * (10 + 16 * series))) font 'sans,13' noenhanced
set output '$out'
set encoding utf8
set datafile separator tab missing '-'
grey = '#808080'
array colour[5] = ['#3b82f6', '#e07b39', '#2f9e5f', '#a06cd5', '#808080']
set border 1 linecolor rgb grey
set tics nomirror textcolor rgb grey
set xrange [0:1]
set xtics 0.2 format '%.1f' out
set yrange [0.6 - $rows:0.55]
unset ytics
set grid xtics linecolor rgb grey dashtype 3
set style fill solid border
set tmargin at screen 0.78
set bmargin at screen 0.10
set key autotitle columnheader
set multiplot
set label 1 'Share of the processor''s peak (f32 FMA) that attention reaches' at screen 0.01,0.955 textcolor rgb grey font ',15'
set label 2 'dtype, tokens x head_dim; 8 heads. $machine' at screen 0.01,0.89 textcolor rgb grey font ',11'
set key at screen 0.99,0.96 right top horizontal textcolor rgb grey reverse Left samplen 1.5
h = 0.8 / $series
y(i) = 0.4 - (i - 1.5) * h - column(0)
do for [pass = 0:1] {
    set lmargin at screen (pass ? 0.63 : 0.23)
    set rmargin at screen (pass ? 0.97 : 0.57)
    set title (pass ? 'backward' : 'forward') textcolor rgb grey offset 0,-0.5
    plot for [i = 2:$series + 1] '$data' index pass using (column(i) / 2):(y(i)):(0):(column(i)):(y(i) - h / 2):(y(i) + h / 2) \\
        with boxxyerror linecolor rgb colour[i - 1] title columnheader(i), \\
        for [i = 2:$series + 1] '$data' index pass using (column(i)):(y(i)):i with labels left offset 0.4,0 textcolor rgb grey font ',11' notitle, \\
        '$data' index pass using (0):(-column(0)):(pass ? '' : stringcolumn(1)) with labels right offset -0.6,0 textcolor rgb grey notitle
    unset label
    unset key
}
GNUPLOT
echo "$out"
