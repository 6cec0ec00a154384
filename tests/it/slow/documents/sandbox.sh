#!/usr/bin/env bash
# A machine of its own for the commands of one document: namespaces for its network, its processes
# and its mounts, so that addresses, ports and places of the document are the real ones, and nothing
# is left at the end. Started by tests/it/slow/documents/mod.rs, at a terminal at which "y" is typed.
#
#   sandbox.sh SCENE FOLDER      FOLDER holds story.sh, bin/ (tidegate, consul, haproxy), checkout/
#
# SCENE: consul     Consul runs; the document sets everything up itself
#        fleet      besides, the environment gprd is set up, a replica serves it, two nodes follow
#        acl        Consul with ACLs, and a token whose accessor is $RESPONDER_ACCESSOR
set -euo pipefail

scene=$1
folder=$2
log=$folder/log
services=()

main() {
    stty -echo 2>/dev/null || true
    network
    places
    stand_ins
    export PATH=$folder/stand-ins:$folder/bin:$PATH
    export USER=ana CI_PIPELINE_URL=https://ci.example.org/7 LB_ZONE=us-east1-b
    nodes
    consul_runs
    case $scene in
        consul) ;;
        fleet) fleet ;;
        acl) ;;
    esac
    cd "$folder/checkout"
    source "$folder/story.sh"
}

network() {
    local address
    ip link set lo up
    # The balancer's address and those of the replicas and servers in the documents.
    for address in 10.0.9.9 10.0.0.1 10.0.0.2 10.0.0.3 10.4.0.1; do
        ip address add "$address/32" dev lo
    done
}

# Folders that the documents name, without those of the machine.
places() {
    local copy=$folder/etc
    mkdir "$copy"
    mount -t tmpfs none "$copy"
    cp -a /etc/. "$copy"
    mount --bind "$copy" /etc
    mount -t tmpfs none /run
    mount -t tmpfs none /var/lib
    mkdir -p /etc/haproxy /etc/tidegate /run/haproxy /var/lib/tidegate
    cp "$folder/haproxy.cfg" "$folder/settings.json" "$folder/checkout"
    if [[ -e $folder/tidegate.toml ]]; then cp "$folder/tidegate.toml" /etc/tidegate; fi
    # Where the commands find HAProxy's own word.
    cat >/etc/tidegate/commands.toml <<'TOML'
[observe.stats]
haproxy-main-01 = "unix:/run/haproxy/admin.sock"
haproxy-main-02 = "unix:/run/haproxy/other.sock"
TOML
}

# stand_in NAME REASON: what cannot run here; standard input is a shell function's body that looks at
# the words as far as that is possible. Keep the list short: what can run must run.
stand_in() {
    local file=$folder/stand-ins/$1
    mkdir -p "$folder/stand-ins"
    { printf '#!/bin/bash\n# %s\nset -euo pipefail\nbad() { echo "$0 $*" >&2; exit 97; }\n' "$2" && cat; } >"$file"
    chmod +x "$file"
}

stand_ins() {
    stand_in apt-get "installs on the machine: scripts/try-readme and scripts/try-package run it" <<'BODY'
[[ $1 == update || $1 == install || $1 == remove || $1 == purge ]] || bad "$@"
BODY
    stand_in gcloud "needs an account of Google Cloud" <<'BODY'
[[ "$1 $2" == "secrets create" || "$1 $2 $3" == "secrets versions add" ]] || bad "$@"
[[ " $* " != *" --data-file=- "* || -n $(cat) ]] || bad "$@: nothing to store"
BODY
    stand_in terraform "fetches providers: tests/it/slow/terraform runs it against a stand-in of theirs" <<'BODY'
[[ $1 == init || $1 == plan || $1 == apply ]] || bad "$@"
ls ./*.tf >/dev/null
BODY
    stand_in kubectl "needs a cluster; what is built for one is built here" <<'BODY'
if [[ $1 == --namespace || $1 == -n ]]; then shift 2; fi
case $1 in
    kustomize) exec "$SANDBOX/bin/kubectl" "$@" ;;
    apply)
        case $2 in
            -k) "$SANDBOX/bin/kubectl" kustomize "$3" >/dev/null ;;
            -f) [[ $3 == - || -e $3 ]] || bad "no $3" ;;
            *) bad "$@" ;;
        esac
        ;;
    create | delete | exec | get | label | logs | port-forward | rollout | scale | wait) ;;
    *) bad "$@" ;;
esac
BODY
    stand_in cargo "builds take minutes, and this is a test of cargo's own: names are looked at, run runs" <<'BODY'
words=" $* "
[[ $1 == +* ]] && shift
case $1 in
    run) [[ $words == *" -- "* ]] || bad "$@"; while [[ $1 != -- ]]; do shift; done; shift; exec tidegate "$@" ;;
    bench | build | check | clippy | deny | doc | fetch | fmt | fuzz | install | nextest | test) ;;
    *) bad "$@" ;;
esac
while (($#)); do
    case $1 in
        --bench) grep -q "name = \"$2\"" Cargo.toml || bad "no bench $2" ;;
        --manifest-path) [[ -e $2 ]] || bad "no $2" ;;
    esac
    shift
done
BODY
    stand_in systemctl "systemd does not run here: it does to HAProxy and Tidegate what their units would" <<'BODY'
case "$1 ${2:-}" in
    "reload haproxy") kill -USR2 "$(cat "$SANDBOX/haproxy-main-01.pid")" ;;
    "reload tidegate") kill -HUP "$(cat "$SANDBOX/serve.pid")" ;;
    "restart tidegate" | "start tidegate") touch "$SANDBOX/restart" ;;
    "status tidegate" | "edit tidegate" | "stop tidegate" | "enable tidegate" | "daemon-reload ") ;;
    *) bad "$@" ;;
esac
BODY
    stand_in socat "is not among the tools of scripts/setup: the same on a socket with perl" <<'BODY'
[[ $1 == stdio ]] || bad "$@"
exec perl -MIO::Socket::UNIX -e '
    my $socket = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$ARGV[0]: $!\n";
    print $socket $_ while <STDIN>;
    shutdown $socket, 1;
    print while <$socket>;' "$2"
BODY
    export SANDBOX=$folder
    # Programs of the repository that have tests of their own, or are what runs this one.
    local script
    for script in demo image package release setup test try-image try-package try-readme; do
        if [[ -e $folder/checkout/scripts/$script ]]; then
            printf '#!/bin/sh\n' >"$folder/checkout/scripts/$script"
        fi
    done
    mkdir -p "$folder/checkout/target/release"
    ln -s "$folder/bin/tidegate" "$folder/checkout/target/release/tidegate"
    ln -sfn "$folder/bin" "$folder/checkout/.tools-bin"
}

# Both HAProxy nodes, with the words that `tidegate render` puts in. They run on when nobody answers.
nodes() {
    local node zone socket port=0
    for node in haproxy-main-01:us-east1-b:admin haproxy-main-02:us-east1-c:other; do
        IFS=: read -r node zone socket <<<"$node"
        port=$((port + 1))
        sed -e "s/@SOCKET@/$socket/" -e "s/@PORT@/$port/g" "$folder/haproxy.cfg" >"$folder/$node.cfg"
        # The file of this node, at the place where the documents look for it.
        tidegate render --mode on --agent 10.0.9.9:8790 --zone "$zone" --settings "$folder/settings.json" \
            "$folder/$node.cfg" >"$folder/$node.on.cfg"
        background "$node" haproxy -W -db -L "$node" -f "$folder/$node.on.cfg"
        echo $! >"$folder/$node.pid"
    done
    sed -i -e "s/@SOCKET@/admin/" -e "s/@PORT@/1/g" "$folder/checkout/haproxy.cfg"
    cp "$folder/haproxy-main-01.on.cfg" /etc/haproxy/haproxy.cfg
}

consul_runs() {
    local more=()
    if [[ $scene == acl ]]; then
        export CONSUL_HTTP_TOKEN=11111111-2222-3333-4444-555555555555
        more=(-hcl "acl = { enabled = true default_policy = \"deny\" tokens = { master = \"$CONSUL_HTTP_TOKEN\" } }")
    fi
    background consul consul agent -dev -log-level warn "${more[@]}"
    within_a_minute consul kv get -keys ""
    if [[ $scene == acl ]]; then
        within_a_minute token
        export RESPONDER_ACCESSOR
        RESPONDER_ACCESSOR=$(jq -r .AccessorID "$folder/token.json")
    fi
}

token() {
    consul acl token create -description responder -policy-name global-management -format json >"$folder/token.json"
}

fleet() {
    export TIDEGATE_CONFIG=/etc/tidegate/commands.toml
    tidegate init --env gprd
    known_fleet
    serve "tidegate serve --env gprd --standalone --data-dir /var/lib/tidegate"
    within_a_minute followed
}

# What an environment knows of its fleet, once it is set up.
known_fleet() {
    consul kv put frontend/gprd/settings @"$folder/settings.json" >/dev/null
    consul kv put frontend/gprd/group-states/main ready >/dev/null
}

# Every row of both nodes has been told the newest listing.
followed() {
    local view
    view=$(curl -fs 127.0.0.1:8791/api/v1/fleet) || return
    jq -e "[.nodes[].rows[]] | length == 14" <<<"$view" >/dev/null && jq -e '.behind == []' <<<"$view" >/dev/null
}

# serve COMMAND: in the background, in place of the one before, until it is ready.
serve() {
    if [[ -e $folder/serve.pid ]]; then
        kill "$(cat "$folder/serve.pid")" 2>/dev/null || true
        within_a_minute gone "$(cat "$folder/serve.pid")"
    fi
    # Nobody takes it out of a balancer here.
    export TIDEGATE_DRAIN_FOR=0s
    if [[ $1 == *" --peer "* ]]; then
        replicas "$1"
    else
        eval "background serve $1"
        echo $! >"$folder/serve.pid"
        within_a_minute curl -fs -o /dev/null 127.0.0.1:8791/readyz
    fi
}

# replicas COMMAND: that of the replica a; b and c are on machines of their own, which are addresses
# here. What follows asks a.
replicas() {
    local slot number=0 text
    for slot in a b c; do
        number=$((number + 1))
        text=${1/--slot a/--slot $slot}
        text=${text/--data-dir \/var\/lib\/tidegate/--data-dir \/var\/lib\/tidegate\/$slot}
        mkdir -p "/var/lib/tidegate/$slot"
        export TIDEGATE_HTTP_LISTEN=10.0.0.$number:8791 TIDEGATE_AGENT_LISTEN=10.0.0.$number:8790
        # The balancer, which has one of them.
        if [[ $slot == a ]]; then TIDEGATE_AGENT_LISTEN=10.0.9.9:8790; fi
        eval "background serve-$slot $text"
        if [[ $slot == a ]]; then echo $! >"$folder/serve.pid"; fi
    done
    export TIDEGATE_HTTP_LISTEN=10.0.0.1:8791 TIDEGATE_AGENT_LISTEN=10.0.9.9:8790
    for number in 1 2 3; do
        within_a_minute curl -fs -o /dev/null "10.0.0.$number:8791/readyz"
    done
}

gone() {
    ! kill -0 "$1" 2>/dev/null
}

# background NAME COMMAND...
background() {
    local name=$1
    shift
    "$@" </dev/null >>"$folder/$name.log" 2>&1 9<&- &
    services+=("$name")
}

# A busy machine takes its time, and nothing here waits for its own sake.
within_a_minute() {
    local end=$((SECONDS + 60))
    while ((SECONDS < end)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "not within a minute: $*"
    tail -n 20 "$folder"/*.log
    exit 98
}

# The words of a document that stand for something of the reader's.
resolve() {
    local text=$1
    if [[ $text =~ (^|[^A-Za-z_])ID([^A-Za-z_=]|$) ]]; then
        local id
        id=$(tidegate history --env gprd --limit 1 --output json | jq -r '.[0].change')
        text=$(sed -E "s/(^|[^A-Za-z_])ID([^A-Za-z_=]|$)/\1$id\2/g" <<<"$text")
    fi
    text=${text//https:\/\/canary.example.org\/-\/health/http://127.0.0.1:8791/livez}
    printf '%s' "$text"
}

# step PLACE CODE 9<<TEXT: one command of the document, which must end with CODE.
step() {
    local place=$1 expected=$2 text status=0
    text=$(resolve "$(cat <&9)")
    printf '%s$ %s\n' "$place" "$text"
    if [[ $text =~ (tidegate|cargo run .*--)\ serve\  ]]; then
        serve_line "$text" || status=$?
    else
        # In this shell, so that what a line exports counts for the next.
        eval "$text" 9<&- || status=$?
    fi
    if [[ $text =~ ^tidegate\ init\ .*gprd$ ]]; then known_fleet; fi
    if [[ -e $folder/restart ]]; then
        rm "$folder/restart"
        serve "tidegate serve --config /etc/tidegate/tidegate.toml"
    fi
    if [[ $status != "$expected" ]]; then
        printf '%s FAILED: it ended with %s, the document says %s\n' "$place" "$status" "$expected"
        failed=1
    fi
}

# What stands before the service on the line runs to its end.
serve_line() {
    local text=${1%%#*}
    if [[ $text == *"&& "* ]]; then
        eval "${text%&& *}" || return
        text=${text##*&& }
    fi
    serve "$text"
}

failed=0
main
exit "$failed"
