//! A cluster of three brokers, of which one after the other dies, and then all at once. Partitions and the coordinators of group and
//! transactions find other leaders meanwhile; the auditor sees each output once.

use std::{fs, path::PathBuf, time::Duration};

use loopwarden::clock::Deadline;
use rdkafka::consumer::Consumer;

use crate::{broker, broker::Broker, fleet::Fleet, scenario::Scenario, world::World};

/// Three machines starting on one, a session of a broker, another leader for everything, a transaction that ran out.
const PATIENCE: Duration = Duration::from_secs(180);
const BROKERS: usize = 3;

/// Brokers that are also the controllers. Their data outlive them, and go with this.
struct Cluster {
    bootstrap: String,
    dirs: Vec<PathBuf>,
    running: Vec<Broker>,
}

impl Cluster {
    /// `None` where no broker can be started, which is said aloud.
    fn start() -> Option<Self> {
        broker::bootstrap()?;
        if !broker::can_start() {
            broker::leave_out("a given broker cannot be killed");
            return None;
        }
        let ports: Vec<(u16, u16)> = (0..BROKERS).map(|_| (broker::free_port(), broker::free_port())).collect();
        let bootstrap: Vec<String> = ports.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        let mut cluster = Self { bootstrap: bootstrap.join(","), dirs: Vec::new(), running: Vec::new() };
        for at in 0..BROKERS {
            let dir = broker::directory(&format!("cluster-{at}"));
            fs::write(dir.join("server.properties"), properties(at, &ports, &dir)).expect("server.properties");
            fs::write(dir.join("keep"), "").expect("a file");
            cluster.running.push(broker::run(&dir, &cluster.bootstrap, &[]));
            cluster.dirs.push(dir);
        }
        cluster.wait_until_whole();
        Some(cluster)
    }

    /// `kill -9`; what it had acknowledged is on its disk, and on those of others.
    fn kill(&mut self, at: usize) {
        self.running[at].kill();
    }

    fn revive(&mut self, at: usize) {
        self.running[at].revive();
    }

    /// Waits until every partition has a leader and all its copies, and every broker answers.
    fn wait_until_whole(&self) {
        let client = broker::asker(&self.bootstrap);
        let deadline = Deadline::after(PATIENCE);
        loop {
            let is_whole = client.fetch_metadata(None, Duration::from_secs(1)).is_ok_and(|metadata| {
                let partitions = || metadata.topics().iter().flat_map(|topic| topic.partitions());
                metadata.brokers().len() == BROKERS
                    && partitions().all(|at| at.leader() >= 0 && at.isr().len() == at.replicas().len())
            });
            if is_whole {
                return;
            }
            assert!(!deadline.is_over(), "the cluster does not become whole: see {}", self.dirs[0].display());
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.clear();
        for dir in &self.dirs {
            let _ = fs::remove_dir_all(dir.join("data"));
        }
    }
}

fn properties(at: usize, ports: &[(u16, u16)], dir: &std::path::Path) -> String {
    let voters: Vec<String> =
        ports.iter().enumerate().map(|(at, (_, controller))| format!("{}@127.0.0.1:{controller}", at + 1)).collect();
    let (port, controller) = ports[at];
    let of_node = broker::node_properties(dir, at + 1, &voters.join(","), (port, controller, port));
    format!(
        "{of_node}\
         broker.session.timeout.ms=6000\n\
         broker.heartbeat.interval.ms=1000\n\
         unclean.leader.election.enable=false\n\
         min.insync.replicas=2\n\
         offsets.topic.replication.factor={BROKERS}\n\
         offsets.topic.num.partitions=3\n\
         transaction.state.log.replication.factor={BROKERS}\n\
         transaction.state.log.min.isr=2\n\
         transaction.state.log.num.partitions=3\n"
    )
}

#[test]
fn brokers_die_one_after_the_other_and_all_at_once_and_nothing_shows() {
    let Some(mut cluster) = Cluster::start() else { return };
    let world = World::replicated(&cluster.bootstrap, 4, BROKERS as u16);
    let mut scenario = Scenario::on(world, "brokers", Fleet::new(31), 4);
    for _ in 0..2 {
        scenario.add(1, &[]);
    }
    scenario.produce(2_000);
    scenario.wait("both ready", PATIENCE, |scenario| scenario.processes.iter().all(crate::process::Process::is_ready));
    // Whoever leads a partition, the group and the transactions: its turn comes.
    let mut produced = 2_000;
    for at in 0..BROKERS {
        cluster.kill(at);
        scenario.produce(2_000);
        produced += 2_000;
        let rest = |scenario: &mut Scenario| scenario.processed() >= produced;
        scenario.wait("events with one broker less", PATIENCE, rest);
        cluster.revive(at);
        cluster.wait_until_whole();
    }
    scenario.produce(2_000);
    for at in 0..BROKERS {
        cluster.kill(at);
    }
    for at in 0..BROKERS {
        cluster.revive(at);
    }
    cluster.wait_until_whole();
    scenario.produce(2_000);
    scenario.settle();
    assert_eq!(scenario.exits.len(), 0, "{:?}", scenario.exits);
    scenario.verify().assert_exactly_once();
}
