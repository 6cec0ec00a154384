//! The rules: what each is called, why it is one, and how to mend what it finds. What they rest on
//! was measured on HAProxy 2.6, 2.8, 3.0 and 3.2.

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it is called, here and in a comment that allows it.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence.
    pub why: &'static str,
    /// One sentence.
    pub mend: &'static str,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A server that is not governed, or is governed wrongly.
    Error,
    /// Something goes wrong under some condition.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Rule {
    /// The rule of that name.
    #[must_use]
    pub fn named(id: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|rule| rule.id == id)
    }
}

macro_rules! rules {
    ($($name:ident $id:literal $severity:ident $why:literal $mend:literal;)*) => {
        $(pub(in super::super) static $name: Rule = Rule {
            id: $id,
            severity: Severity::$severity,
            why: $why,
            mend: $mend,
        };)*

        /// All rules.
        pub static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    SYNTAX "syntax" Error
        "HAProxy refuses the file, so the node does not start or reload."
        "Mend the line as `haproxy -c` says.";
    EMPTY_WORD "empty-word" Error
        "HAProxy ignores what follows an empty word; later releases join the word before a variable that is not set with the next one."
        "Set the variable or give it a default, or take the empty word out.";
    ALLOW_REASON "allow-reason" Error
        "A rule that is switched off without a reason is switched off for ever."
        "Write `# tidegate: allow RULE because ...`, with a rule of `tidegate lint --rules` and a reason.";
    ALLOW_UNUSED "allow-unused" Warning
        "The comment allows what is no longer there, and would hide it when it comes back."
        "Take the comment away.";

    SEND_MISSING "agent-send-missing" Error
        "Without agent-send nothing says which server is asked about, and each check takes 200 ms longer."
        "Add agent-send \"BACKEND/SERVER [GROUP...] node=${HAPROXY_LOCALPEER} zone=... base=100\\n\" to the server's line.";
    SEND_COMMENT "agent-send-comment" Error
        "An unquoted # begins a comment: the request is cut there and has no line end."
        "Put the request in double quotes, without #.";
    SEND_LITERAL "agent-send-literal" Error
        "In single quotes or written as \\\\n HAProxy sends a backslash and an n, and puts no variable in."
        "Write the request in double quotes, with \\n at its end.";
    SEND_NEWLINE "agent-send-newline" Error
        "A request without a line end is answered only after 100 ms of silence."
        "Write \\n at the end of the request, before the closing double quote.";
    SEND_LINES "agent-send-lines" Error
        "What stands behind the first line end is not read."
        "Write one line, with \\n at its end only.";
    SEND_LENGTH "agent-send-length" Error
        "A request of more than 1,024 bytes is not read."
        "Shorten the request.";
    SEND_VARIABLE "agent-send-variable" Error
        "A variable that is not set becomes nothing, and the request cannot be read."
        "Set it with presetenv or setenv in `global`, give it a default, or tell lint with --variable NAME=VALUE that HAProxy has it.";
    SEND_NESTED "agent-send-nested-default" Error
        "A default ends at the first }: a variable within it is sent as it stands."
        "Set the inner variable with presetenv in `global`, and use it alone.";
    SEND_FORMAT "agent-send-format" Error
        "agent-send knows no log-format: %[...] and %s are sent as they stand."
        "Write the names out, or use a variable in ${...}.";
    SEND_REQUEST "agent-send-request" Error
        "The request cannot be read, so the server is told nothing and keeps its state."
        "Write BACKEND/SERVER [GROUP...] [node=N] [zone=Z] [base=WEIGHT] [mode=shadow].";
    SEND_SERVER "agent-send-server" Error
        "The request names another row, whose state this server would follow."
        "Begin the request with the server's own BACKEND/SERVER.";
    SEND_TWICE "agent-send-twice" Error
        "Two servers with one request cannot be told apart."
        "Give each server a request of its own.";
    SEND_SHARED "agent-send-shared" Error
        "An agent-send of default-server is the same for every server, and they cannot be told apart."
        "Write agent-send on each server's own line.";
    SEND_BASE "agent-send-base" Error
        "base= tells the configured weight, from which the smallest percentage that still gives traffic is reckoned."
        "Write the same number in base= and weight.";
    TEMPLATE "agent-template" Error
        "All servers of a server-template send one request and cannot be told apart."
        "Write the servers out, each with its own agent-send.";

    CHECK_MISSING "agent-check-missing" Error
        "agent-send, agent-addr, agent-port and agent-inter do nothing without agent-check."
        "Add agent-check, or take the others away.";
    ADDR_MISSING "agent-addr-missing" Warning
        "Without agent-addr HAProxy asks the server's own address."
        "Add agent-addr with the address of Tidegate's load balancer.";
    ADDR_NAME "agent-addr-name" Error
        "A host name is resolved once: HAProxy does not start without DNS, and never asks again."
        "Write the address.";
    PORT_RANGE "agent-port-range" Error
        "HAProxy takes a port that cannot be, and never connects."
        "Write a port of 1 to 65535.";
    INTER_SHORT "agent-inter-short" Warning
        "An interval below 250 ms loads the replicas, and one slow answer is already a failed check."
        "Write agent-inter 2s.";
    INTER_MISSING "agent-inter-missing" Warning
        "inter, fastinter and downinter do not count for the agent: it is asked each 2 s, whatever they say."
        "Write agent-inter beside them.";
    TIMEOUT_LONG "timeout-check-long" Warning
        "`timeout check` longer than agent-inter lets a hung replica hold each check that long."
        "Write a `timeout check` below agent-inter, or none.";
    TIMEOUT_SHORT "timeout-check-short" Warning
        "A `timeout check` below 200 ms makes a slow moment of the network a failed check."
        "Write `timeout check` of 200 ms or more.";
    TIMEOUT_IGNORED "timeout-check-ignored" Warning
        "This version often does not hold an agent check to a `timeout check` shorter than agent-inter."
        "Do not count on it, or take a later HAProxy.";
    NO_CHECK "agent-without-check" Warning
        "Without `check` the status is `no check`, and nobody notices a server that died."
        "Add check.";
    CLEAR_TEXT "agent-clear-text" Warning
        "The agent connection is plain TCP, whatever ssl, check-ssl or send-proxy say."
        "Reach the agent over loopback or a protected network, and allow this rule with that reason.";

    WEIGHT_ZERO "weight-zero" Error
        "A percentage of 0 is 0: the server gets no traffic, whatever its state."
        "Write weight 100 and base=100, and keep the server drained where it shall get nothing.";
    WEIGHT_BASE "weight-base-missing" Error
        "HAProxy rounds down, so small percentages of a weight below 100 are no traffic at all, and without base= nobody knows."
        "Write weight 100 and base=100.";
    WEIGHT_LOW "weight-below-100" Warning
        "A ramp by weight has no finer steps than the configured weight."
        "Write weight 100 and base=100 on every server of the backend, or ramp by nodes.";
    BALANCE_STATIC "balance-static" Error
        "This algorithm refuses every percentage but 0 and 100: a ramp is full weight at once."
        "Use roundrobin, or `hash-type consistent`.";
    BALANCE_FIRST "balance-first" Error
        "`balance first` takes weights and ignores them."
        "Use roundrobin.";
    BALANCE_LEASTCONN "balance-leastconn" Warning
        "leastconn ignores weights while there is little traffic: 10 % became 25 % at four connections."
        "Use roundrobin where canaries are ramped by weight.";
    SLOWSTART "slowstart" Warning
        "slowstart multiplies the percentage of a ramp, and does nothing after a drain."
        "Take slowstart away; the ramp is Tidegate's.";
    TRACK "track-weight" Warning
        "A tracking server follows drain and maintenance, and not the weight."
        "Give the tracking server an agent-check of its own where it is ramped.";

    START_WINDOW "start-window" Warning
        "After a start or reload every server runs at full weight until its first check, up to agent-inter later."
        "Write `max-spread-checks 50ms` in `global`, and `disabled` on canary servers.";
    SPREAD "spread-checks" Warning
        "With a small max-spread-checks and without spread-checks all servers of a node are checked at the same moment, for ever."
        "Write `spread-checks 10` in `global`.";
    DISABLED "disabled-server" Warning
        "A `disabled` server stays in maintenance when the node starts while no replica answers."
        "Write `disabled` on canary servers only.";
    STATE_FILE "state-file" Error
        "The state file overrides agent-addr and agent-port, and keeps `disable agent` over reloads."
        "Take load-server-state-from-file away; the agent restores the state at the first check.";
    INIT_STATE "init-state" Warning
        "init-state waits for the health check, and not for the agent."
        "Use `disabled` on canary servers, and max-spread-checks.";
    VERSION_OLD "haproxy-version-old" Error
        "Before HAProxy 2.4 the word `up` of an agent overrides a failed health check."
        "Take HAProxy 2.6 or later.";
    VERSION_FIXES "haproxy-version-fixes" Warning
        "This version reads an agent's answer beyond its end; Tidegate's answers always have one, other agents' may not."
        "Take a later release of the branch.";
    DEFAULT_SERVER "default-server-missing" Warning
        "In 3.3 and 3.4 an agent-check that no default-server gives leaves a server down after its first failed health check, unless the agent says up."
        "Write `default-server agent-check` and leave it away from the servers' lines.";

    COOKIE "drain-cookie" Warning
        "A drained server still gets the requests that a cookie binds to it."
        "Count on maintenance for them, or take the cookie away.";
    STICK "drain-stick" Warning
        "A drained server still gets the requests that a stick table binds to it."
        "Count on maintenance for them, or take the stick rules away.";
    USE_SERVER "drain-use-server" Warning
        "A drained server still gets the requests that use-server sends to it."
        "Count on maintenance for them, or route by backends with nbsrv().";
    SRV_IS_UP "srv-is-up" Warning
        "srv_is_up() is true of a drained server."
        "Ask nbsrv() of the backend.";
    MARKED_DOWN "on-marked-down" Warning
        "With shutdown-sessions maintenance kills the running requests."
        "Drain first and wait, as `canary --disable` does, or take it away.";
    LOG_CHECKS "log-health-checks" Warning
        "Without `option log-health-checks` a failing agent is nowhere in the log."
        "Write `option log-health-checks` in `defaults`.";
    LAST_SERVER "last-server" Warning
        "The backend has no other server: draining this one answers 503."
        "Add a server or a backup.";

    RAMP_ALONE "ramp-alone" Note
        "A ramp by weight changes nothing for the only active server of a backend: 1 % of its weight is all of the traffic."
        "Ramp by nodes.";
    CANARY_TAKES_ALL "canary-takes-all" Note
        "Backup servers serve only when no active server can: with the zone's server drained, a ready canary gets all of the node's traffic."
        "Drain the canary on those nodes first; the rails say so too.";

    RUNNING_MISSING "running-missing" Error
        "The running HAProxy has other servers than the files."
        "Reload HAProxy.";
    RUNNING_AGENT "running-agent" Error
        "The running HAProxy asks another agent than the files say, mostly from a state file or a command at its socket."
        "Reload HAProxy without its state file.";
    RUNNING_DISABLED "running-agent-disabled" Warning
        "Somebody has switched the agent check off: the server keeps its state whatever is desired."
        "Say `enable agent BACKEND/SERVER` at the stats socket.";
    RUNNING_WEIGHT "running-weight" Warning
        "The running HAProxy has another configured weight than the files."
        "Reload HAProxy.";
    NOT_POLLING "not-polling" Error
        "No replica is asked about the server: the node does not reach them, or does not run these files."
        "Look at the server's agent_status in `show stat`.";
}
