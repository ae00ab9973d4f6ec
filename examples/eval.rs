//! scratch
use loopwarden::engine::*;
use loopwarden::event::*;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let policy = Arc::new(loopwarden::config::policy::load(&args[1]).map_err(|e| e.to_string()).unwrap());
    let data = &args[2];
    let file = std::fs::File::open(format!("{data}/events.ndjson.zst")).unwrap();
    let reader = std::io::BufReader::with_capacity(1 << 20, zstd::Decoder::new(file).unwrap());
    let lines: Vec<Vec<u8>> = reader.split(b'\n').map(|l| l.unwrap()).filter(|l| !l.is_empty()).collect();
    let mut engine = SessionEngine::new("loopwarden", policy.clone());
    let mut sessions: BTreeMap<String, (SubjectKey, Session)> = BTreeMap::new();
    let mut out = Effects::default();
    // per session_id: commands (seq, detector, action, shadow, count)
    let mut told: BTreeMap<String, Vec<(u64, String, String, bool, u32)>> = BTreeMap::new();
    let t = std::time::Instant::now();
    let reps: usize = args.get(3).and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut n = 0u64;
    let mut swarm_calls = 0u64;
    let mut sums = SwarmSums::default();
    let swarm = SwarmEngine::new("loopwarden", policy.clone());
    let mut counters: BTreeMap<SwarmCallKey, SwarmCounter> = BTreeMap::new();
    let mut swarm_cmds = 0;
    for rep in 0..reps {
        if rep > 0 {
            sessions.clear();
        }
        for (i, line) in lines.iter().enumerate() {
            let meta = RecordMeta {
                topic: "f",
                partition: 0,
                offset: RecordOffset(i as u64),
                timestamp: EventTime(4102444800000),
                key: None,
                headers: vec![],
                value_bytes_max: 1 << 20,
            };
            let event = match decode(Some(line), &meta) {
                Ok(e) => e,
                Err(r) => {
                    eprintln!("rejected {i} {r}");
                    continue;
                }
            };
            n += 1;
            let mut event = event;
            event.record_time = event.time;
            let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
            let steps = policy.history_steps;
            let (subject, session) = sessions.entry(key).or_insert_with(|| (SubjectKey::of_event(&event), Session::new(steps)));
            out.clear();
            engine.apply(subject, session, Input::Event(&event, Place { topic: "f", partition: 0, offset: i as u64 }), &mut out);
            session.changed_steps.clear();
            swarm_calls += out.counts.len() as u64;
            for c in out.counts.drain(..) {
                sums.add(&policy, c);
            }
            if i % 4096 == 0 {
                for (k, r) in sums.drain_sorted() {
                    let mut o = Effects::default();
                    let c = counters.entry(k.clone()).or_default();
                    swarm.apply(&k, c, SwarmInput::Report(&r), &mut o);
                    swarm_cmds += o.commands.len();
                }
            }
            if rep > 0 {
                continue;
            }
            for c in &out.commands {
                let count = c
                    .evidence
                    .iter()
                    .find(|(k, _)| *k == "count")
                    .map_or(0, |(_, f)| if let Fact::Count(n) = f { *n as u32 } else { 0 });
                told.entry(event.session_id.to_string()).or_default().push((
                    event.seq.unwrap_or(0),
                    c.reason.as_str().to_string(),
                    c.action.as_str().to_string(),
                    c.is_shadow,
                    count,
                ));
            }
        }
    }
    let el = t.elapsed();
    println!(
        "{} events {:.2?} {:.0} ev/s; sessions {}; swarm calls {} cmds {} counters {}",
        n,
        el,
        n as f64 / el.as_secs_f64(),
        sessions.len(),
        swarm_calls,
        swarm_cmds,
        counters.len()
    );
    let mut per: BTreeMap<(String, String, bool), (u64, std::collections::BTreeSet<String>)> = BTreeMap::new();
    for (s, cs) in &told {
        for c in cs {
            let e = per.entry((c.1.clone(), c.2.clone(), c.3)).or_default();
            e.0 += 1;
            e.1.insert(s.clone());
        }
    }
    for (k, v) in &per {
        println!("{:18} {:7} shadow={:5} commands {:6} sessions {:5}", k.0, k.1, k.2, v.0, v.1.len());
    }
    let labels: Vec<serde_json::Value> = std::fs::read_to_string(format!("{data}/labels.jsonl"))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let (mut found, mut loops, mut oks, mut okn, mut okb) = (0, 0, 0, 0, 0);
    for l in &labels {
        let s = l["session"].as_str().unwrap();
        let a = l["first_event_index"].as_u64().unwrap();
        let b = l["last_event_index"].as_u64().unwrap();
        let cs: Vec<_> = told.get(s).map(|v| v.iter().filter(|c| !c.3 && c.0 >= a && c.0 <= b).collect()).unwrap_or_default();
        if l["label"] == "loop" {
            loops += 1;
            if cs.is_empty() {
                println!("MISSED {} {} {}", s, l["kind"], l["note"].as_str().unwrap_or(""));
            } else {
                found += 1;
                println!(
                    "  found {} {}: {:?}",
                    s,
                    l["kind"],
                    cs.iter().take(4).map(|c| format!("{}@{}:{}:{}", c.1, c.0 - a, c.2, c.4)).collect::<Vec<_>>()
                );
            }
        } else {
            oks += 1;
            if !cs.is_empty() {
                okn += 1;
                println!(
                    "LOOKALIKE {} {} amb={:?} {:?}",
                    s,
                    l["kind"],
                    l["ambiguous"],
                    cs.iter().map(|c| format!("{}@{}:{}:{}", c.1, c.0, c.2, c.4)).collect::<Vec<_>>()
                );
            }
            if cs.iter().any(|c| c.2 == "block") {
                okb += 1;
            }
        }
    }
    println!("loops found {found}/{loops}; lookalikes nudged {okn}/{oks} blocked {okb}");
    let outc: Vec<serde_json::Value> = std::fs::read_to_string(format!("{data}/outcomes.jsonl"))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let (mut succ, mut sn, mut sb) = (0, 0, 0);
    let mut by: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for o in &outc {
        if o["success"] == true {
            succ += 1;
            let s = o["session"].as_str().unwrap();
            if let Some(cs) = told.get(s) {
                let src = s.split('/').take(2).collect::<Vec<_>>().join("/");
                if cs.iter().any(|c| !c.3) {
                    sn += 1;
                    by.entry(src).or_default().0 += 1;
                    if std::env::var("V").is_ok() {
                        println!(
                            "SUCCESS NUDGED {s} {:?}",
                            cs.iter()
                                .filter(|c| !c.3)
                                .map(|c| format!("{}@{}:{}:{}", c.1, c.0, c.2, c.4))
                                .take(6)
                                .collect::<Vec<_>>()
                        );
                    }
                }
                if cs.iter().any(|c| !c.3 && c.2 == "block") {
                    sb += 1;
                    let last = cs.len();
                    println!(
                        "SUCCESS BLOCKED {s} {:?}",
                        cs.iter()
                            .filter(|c| !c.3)
                            .map(|c| format!("{}@{}:{}:{}", c.1, c.0, c.2, c.4))
                            .take(8)
                            .collect::<Vec<_>>()
                    );
                    let _ = last;
                }
            }
        }
    }
    println!("successful {succ}: nudged {sn} blocked {sb} {by:?}");
}
