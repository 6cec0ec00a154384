//! What a fleet takes, from what a poll takes.

/// The part of a core that polls may take: the rest is for bursts, and for what is not the agent.
const CORE_USED: f64 = 0.6;
/// Segments of a poll: SYN, SYN+ACK, ACK with the line, answer, RST.
const SEGMENTS: f64 = 5.0;
/// On the wire beside the payload: Ethernet with its gaps 38, IP 20, TCP with options 32 on average.
const SEGMENT_BYTES: f64 = 90.0;
/// Line and answer.
const PAYLOAD_BYTES: f64 = 110.0;
/// Cores of one replica; more replicas are for a lost zone, more cores for a large fleet.
const REPLICA_CORES: f64 = 4.0;

/// Nodes, servers of each, seconds between two polls.
const FLEETS: [(u32, u32, f64); 6] = [
    (80, 46, 2.0),
    (100, 60, 2.0),
    (500, 100, 2.0),
    (2_000, 200, 2.0),
    (5_000, 300, 2.0),
    (20_000, 500, 1.0),
];

/// Prints the table for a responder that needs so many microseconds of a core for a poll.
pub(crate) fn print(micros: f64) {
    let given = std::env::var("TIDEGATE_BENCH_POLL_MICROS").ok();
    let micros = given.and_then(|text| text.parse().ok()).unwrap_or(micros);
    println!(
        "At {micros:.1} µs of a core for a poll, {:.0} % of a core used:\n",
        CORE_USED * 1e2
    );
    println!("| nodes × servers / agent-inter | polls/s | cores | Mb/s | packets/s | replicas |");
    println!("|---|---|---|---|---|---|");
    for (nodes, servers, inter) in FLEETS {
        let polls = f64::from(nodes) * f64::from(servers) / inter;
        let cores = polls * micros / 1e6 / CORE_USED;
        let bits = polls * (SEGMENTS * SEGMENT_BYTES + PAYLOAD_BYTES) * 8.0;
        // In three zones, of which one may be lost: two must do.
        let in_a_zone = (cores / 2.0 / REPLICA_CORES).ceil();
        let replicas = 3.0 * in_a_zone;
        println!(
            "| {nodes} × {servers} / {inter} s | {polls:.0} | {cores:.1} | {:.0} | {:.0} | \
             {replicas:.0} of {:.0} cores |",
            bits / 1e6,
            polls * SEGMENTS,
            (cores / 2.0 / in_a_zone).ceil()
        );
    }
}
