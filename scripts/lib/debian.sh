# A Debian 12 of its own, for the scripts that try something on one. Sourced, with `work` set to a
# scratch folder and `fail` there.

# bootstrap ROOT PACKAGES: PACKAGES with commas between.
bootstrap() {
    debootstrap --variant=minbase --include="$2" bookworm "$1" "$(mirror)" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 20 "$work/debootstrap.log" >&2; fail "debootstrap failed."; }
}

# The mirror of the machine's own Debian release, as apt knows it.
mirror() {
    apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk '$1 == "bookworm" && !seen++ { print $2 }'
}
