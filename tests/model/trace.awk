# SPDX-License-Identifier: MIT
# spin -t -p -g: one line for each step, with what it changed
FILENAME == ARGV[1] {
	if ($1 == "#define" && $2 ~ /^[A-Z]+$/ && $3 ~ /^[0-9]+$/ && !($3 in name) && inpc) name[$3] = $2
	if (/where a process is/) inpc = 1
	if (/shared words/) inpc = 0
	next
}
function flush_step(   k, line) {
	if (step == "") return
	line = ""
	for (k = 1; k <= n; k++) if (now[key[k]] != old[key[k]]) {
		v = now[key[k]]; if (key[k] ~ /^pc/) v = name[v]
		line = line " " key[k] "=" v
		old[key[k]] = now[key[k]]
	}
	if (line != "") printf "%4s %-10s%s\n", step, who, line
}
/^ *[0-9]+:\tproc/ {
	s = $1; sub(":", "", s)
	if (s != step) {
		flush_step()
		step = s
		who = $4
		gsub(/\(|:.*/, "", who)
		if (who == "Waiter") who = who " " ($3 - 1)
	}
	next
}
/^\t\t[a-z]+(\[[0-9]+\])? = / {
	if ($1 ~ /^h[a-z]$/) next
	if (!($1 in old)) { key[++n] = $1; old[$1] = 0 }
	now[$1] = $3
}
END { flush_step() }
