//! What is refused, and the message: tables for the tests of the configuration.

/// File, environment, `--set`, and the message to each problem: that of every layer, in the order of the file's lines, then as found.
pub(super) type Refused =
    (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

pub(super) const REFUSED: &[Refused] = &[
    (
        "[[input]]\ntopic = \"a\"\n",
        &[],
        &[],
        &["error[E0202]: there are tables [[input]], but kafka.bootstrap_servers is not set\n  \
           set in loopwarden.toml:1:1 (input)"],
    ),
    (
        "[kafka]\nbootstrap_servers = \"h:1\"\n[[input]]\ntopic = \"a b\"\nform = \"xml\"\n[[input]]\nform = \"native\"\ntopics = \"a\"\n",
        &[],
        &["input=x"],
        &[
            "error[E0202]: input[0].topic is \"a b\", but must be 1 to 249 letters, digits, '.', '_' or '-'\n  \
             set in loopwarden.toml:4:9 (input[0].topic)",
            "error[E0202]: input[0].form is \"xml\", but must be one of: native, json, cloudevents, otlp_proto, otlp_json\n  \
             set in loopwarden.toml:5:8 (input[0].form)",
            "error[E0202]: input[1].topic is not set\n  set in loopwarden.toml:6:1 (input[1])",
            "error[E0201]: unknown key \"input[1].topics\" (did you mean \"topic\"?)\n  set in loopwarden.toml:8:1 (input[1])",
            "error[E0202]: input is \"x\", but must be an array\n  set by --set (input)",
        ],
    ),
    (
        "[kafka]\nbootstrap_servers = \"h:1\"\n[[input]]\ntopic = \"a\"\nform = \"json\"\n[[input]]\ntopic = \"a\"\n\
         [[input]]\ntopic = \"agents.tool-events.v1\"\nmapping = \"m\"\nsignal = \"logs\"\n",
        &[],
        &[],
        &[
            "error[E0202]: input[0].form is \"json\", but input[0].mapping is not set; begin with: loopwarden map\n  \
             set in loopwarden.toml:3:1 (input[0])",
            "error[E0202]: input[1].topic is \"a\", which another table [[input]] has\n  set in loopwarden.toml:6:1 (input[1])",
            "error[E0202]: input[2].topic is \"agents.tool-events.v1\", but must not be the topic of kafka.input\n  \
             set in loopwarden.toml:8:1 (input[2])",
            "error[E0202]: input[2].mapping is set, but is for json and cloudevents, not for native\n  \
             set in loopwarden.toml:8:1 (input[2])",
            "error[E0202]: input[2].signal is set, but is for otlp_proto and otlp_json, not for native\n  \
             set in loopwarden.toml:8:1 (input[2])",
        ],
    ),
    (
        "[http]\npublic_url = \"http://w.example\"\nlink_ms_max = 1\n[[webhook]]\nname = \"a\"\nurl = \"http://h\"\n\
         links = \"right, always\"\n",
        &[],
        &[],
        &[
            "error[E0202]: http.public_url is \"http://w.example\", but must be a URL of at most 200 characters with https, or with http \
             on this host\n  set in loopwarden.toml:2:14 (http.public_url)",
            "error[E0202]: http.link_ms_max is 1, but must be at least 60000\n  set in loopwarden.toml:3:15 (http.link_ms_max)",
            "error[E0202]: webhook[0].links holds \"always\", but must be right, false_alarm, allow, stop, separated by commas\n  \
             set in loopwarden.toml:7:9 (webhook[0].links)",
        ],
    ),
    (
        "[http]\npublic_url = \"https://w.example/\"\n",
        &[],
        &[],
        &["error[E0202]: http.public_url is set, but http.link_secret_file is not\n  \
           set in loopwarden.toml:2:14 (http.public_url)"],
    ),
    (
        "[[webhook]]\nname = \"a/b\"\nurl = \"ftp://h\"\nactions = \"nudge,stop\"\ntoken_header = \"Host\"\nrequest_ms_max = 60_001\n",
        &[],
        &[],
        &[
            "error[E0202]: webhook[0].name is \"a/b\", but must be 1 to 64 letters, digits, '.', '_' or '-'\n  \
             set in loopwarden.toml:2:8 (webhook[0].name)",
            "error[E0202]: webhook[0].url is \"ftp://h\", but must be a URL with http or https\n  \
             set in loopwarden.toml:3:7 (webhook[0].url)",
            "error[E0202]: webhook[0].actions holds \"stop\", but must be nudge, block, unblock, separated by commas\n  \
             set in loopwarden.toml:4:11 (webhook[0].actions)",
            "error[E0202]: webhook[0].token_header is \"Host\", but must be a header of letters, digits and '-' that requests have no \
             other use for\n  set in loopwarden.toml:5:16 (webhook[0].token_header)",
            "error[E0202]: webhook[0].request_ms_max is 60001, but must not be above 60000\n  \
             set in loopwarden.toml:6:18 (webhook[0].request_ms_max)",
        ],
    ),
    (
        "[[webhook]]\nname = \"a\"\n[[webhook]]\nname = \"a\"\nurl = \"http://h\"\nurl_file = \"u\"\ntoken_file = \"t\"\n\
         [[webhook]]\nname = \"b\"\nurl = \"https://h\"\ntoken_header = \"x-key\"\nrequest_ms_max = 4_999\n",
        &[],
        &[],
        &[
            "error[E0202]: webhook[0].url is not set, and webhook[0].url_file is not either\n  set in loopwarden.toml:1:1 (webhook[0])",
            "error[E0202]: webhook[1].name is \"a\", which another table [[webhook]] has\n  set in loopwarden.toml:3:1 (webhook[1])",
            "error[E0202]: webhook[1].url is set, but webhook[1].url_file is, too: use one\n  set in loopwarden.toml:3:1 (webhook[1])",
            "error[E0202]: webhook[1].token_file is set, but webhook[1].url has http and another host: use https\n  \
             set in loopwarden.toml:3:1 (webhook[1])",
            "error[E0202]: webhook[2].token_header is set, but webhook[2].token_file is not\n  set in loopwarden.toml:8:1 (webhook[2])",
            "error[E0202]: webhook[2].connect_ms_max is 5000, but must not be above request_ms_max (4999)\n  \
             set in loopwarden.toml:8:1 (webhook[2])",
        ],
    ),
    (
        "lanes = 3.0\n[embedded]\npartitions = 99999999999999999999\n",
        &[],
        &[],
        &[
            "error[E0202]: lanes is 3.0, but must be an integer\n  set in loopwarden.toml:1:9 (lanes)",
            "error[E0202]: embedded.partitions is a number of more than 64 bits, but must be an integer\n  \
             set in loopwarden.toml:3:14 (embedded.partitions)",
        ],
    ),
    (
        "mode = \"life\"\nlane = 2\n\n[kafka]\nbootstrap_servers = \"localhost\"\nimput = \"x\"\ngroup = 7\n\n[kafka.librdkafka]\n\
         sasl.mecanism = \"PLAIN\"\n\"enable.auto.commit\" = true\n[kafka.producer.librdkafka]\nacks = 1\nlinger.ms = [5]\n",
        &[("LOOPWARDEN_KAFKA__STRAT", "latest"), ("LOOPWARDEN_LANES", "many")],
        &["http.listen=nowhere", "kafka=x", "colour=red"],
        &[
            "error[E0202]: mode is \"life\", but must be one of: shadow, live\n  set in loopwarden.toml:1:8 (mode)",
            "error[E0201]: unknown key \"lane\" (did you mean \"lanes\"?)\n  set in loopwarden.toml:2:1",
            "error[E0202]: kafka.bootstrap_servers holds \"localhost\", but must be host:port, separated by commas\n  \
             set in loopwarden.toml:5:21 (kafka.bootstrap_servers)",
            "error[E0201]: unknown key \"kafka.imput\" (did you mean \"input\"?)\n  set in loopwarden.toml:6:1 (kafka)",
            "error[E0202]: kafka.group is 7, but must be text\n  set in loopwarden.toml:7:9 (kafka.group)",
            "error[E0207]: unknown librdkafka setting \"sasl.mecanism\" (did you mean \"sasl.mechanism\"?)\n  \
             set in loopwarden.toml:10:1 (kafka.librdkafka)",
            "error[E0208]: librdkafka setting \"enable.auto.commit\" is not for you to set: offsets move inside the transaction only; \
             there is no setting for it\n  set in loopwarden.toml:11:1 (kafka.librdkafka)",
            "error[E0208]: librdkafka setting \"acks\" is not for you to set: it follows from transactions\n  \
             set in loopwarden.toml:13:1 (kafka.producer.librdkafka)",
            "error[E0202]: kafka.producer.librdkafka setting \"linger.ms\" is an array, but must be text or a number\n  \
             set in loopwarden.toml:14:13 (kafka.producer.librdkafka)",
            "error[E0201]: unknown key \"kafka.strat\" (did you mean \"start\"?)\n  \
             set by environment variable LOOPWARDEN_KAFKA__STRAT (kafka)",
            "error[E0202]: lanes is \"many\", but must be an integer\n  set by environment variable LOOPWARDEN_LANES (lanes)",
            "error[E0202]: kafka is a table, but a value must have a key of its own\n  set by --set (kafka)",
            "error[E0201]: unknown key \"colour\"\n  set by --set",
            "error[E0202]: http.listen is \"nowhere\", but must be an address and a port, as 127.0.0.1:9464: names are not looked up\n  \
             set by --set (http.listen)",
        ],
    ),
    (
        "http_listen = \"127.0.0.1:1\"\n[kafka]\nbootstrap = \"h:1\"\n",
        &[
            ("LOOPWARDEN_DATA__DIR", "lw"),
            ("LOOPWARDEN_KAFKA_BOOTSTRAP_SERVERS", "h:1"),
            ("LOOPWARDEN_KAFKA__BOOTSTRAP__SERVERS", "h:1"),
        ],
        &["kafka_group=g", "kafka.gr=g"],
        &[
            "error[E0201]: unknown key \"http_listen\" (did you mean \"http.listen\"?)\n  set in loopwarden.toml:1:1",
            "error[E0201]: unknown key \"kafka.bootstrap\" (did you mean \"bootstrap_servers\"?)\n  \
             set in loopwarden.toml:3:1 (kafka)",
            "error[E0201]: unknown key \"data.dir\" (did you mean \"LOOPWARDEN_DATA_DIR\"?)\n  \
             set by environment variable LOOPWARDEN_DATA__DIR",
            "error[E0201]: unknown key \"kafka_bootstrap_servers\" (did you mean \"LOOPWARDEN_KAFKA__BOOTSTRAP_SERVERS\"?)\n  \
             set by environment variable LOOPWARDEN_KAFKA_BOOTSTRAP_SERVERS",
            "error[E0201]: unknown key \"kafka.bootstrap.servers\" (did you mean \"LOOPWARDEN_KAFKA__BOOTSTRAP_SERVERS\"?)\n  \
             set by environment variable LOOPWARDEN_KAFKA__BOOTSTRAP__SERVERS (kafka)",
            "error[E0201]: unknown key \"kafka_group\" (did you mean \"kafka.group\"?)\n  set by --set",
            "error[E0201]: unknown key \"kafka.gr\"\n  set by --set (kafka)",
        ],
    ),
    (
        "lanes = 2\nepisodes.kept = 3\n",
        &[("LOOPWARDEN_IDLE_MS", "5")],
        &["detectors.exact_repeat.threshold=5", "base=plain", "kafka.detectors=5"],
        &[
            "error[E0201]: unknown key \"episodes\"\n  set in loopwarden.toml:2:1\n  \
             episodes is a key of policies: it belongs into a policy file, whose path `policy` is to name",
            "error[E0201]: unknown key \"idle_ms\"\n  set by environment variable LOOPWARDEN_IDLE_MS\n  \
             idle_ms is a key of policies: it belongs into a policy file, whose path `policy` is to name",
            "error[E0201]: unknown key \"detectors.exact_repeat.threshold\"\n  set by --set\n  \
             detectors is a key of policies: it belongs into a policy file, whose path `policy` is to name",
            "error[E0201]: unknown key \"base\"\n  set by --set\n  \
             base is a key of policies: it belongs into a policy file, whose path `policy` is to name",
            "error[E0201]: unknown key \"kafka.detectors\"\n  set by --set (kafka)",
        ],
    ),
    (
        "data_dir = \"/scratch/lw\"\n",
        &[("TMPDIR", "/scratch")],
        &[],
        &["error[E0202]: data_dir is \"/scratch/lw\", but must not be a temporary directory: cleaners delete state there\n  \
           set in loopwarden.toml:1:12 (data_dir)"],
    ),
    (
        "",
        &[],
        &["kafka.bootstrap_servers=h:1", "kafka.sasl_mechanism=OAUTHBEARER", "kafka.username=me"],
        &[
            "error[E0202]: kafka.sasl_mechanism is OAUTHBEARER, but neither kafka.oauth.token_url nor kafka.oauth.token_file is set\n  \
             set by --set (kafka.sasl_mechanism)",
            "error[E0202]: kafka.username is set, but kafka.sasl_mechanism is OAUTHBEARER, which has none\n  \
             set by --set (kafka.username)",
        ],
    ),
    (
        "",
        &[],
        &["kafka.bootstrap_servers=h:1", "kafka.oauth.token_url=http://issuer.example/token", "kafka.aws_region=eu-west-1"],
        &[
            "error[E0202]: kafka.oauth.token_url is \"http://issuer.example/token\", but must be a URL with https, or with http on this host\n  \
             set by --set (kafka.oauth.token_url)",
        ],
    ),
    (
        "",
        &[],
        &["kafka.bootstrap_servers=h:1", "kafka.oauth.client_id=me", "kafka.aws_region=eu-west-1"],
        &[
            "error[E0202]: kafka.oauth.client_id is set, but kafka.oauth.token_url is not\n  set by --set (kafka.oauth.client_id)",
            "error[E0202]: kafka.oauth.client_id is set, but kafka.sasl_mechanism is not OAUTHBEARER\n  \
             set by --set (kafka.oauth.client_id)",
            "error[E0202]: kafka.aws_region is set, but kafka.sasl_mechanism is not AWS_MSK_IAM\n  set by --set (kafka.aws_region)",
        ],
    ),
    (
        "",
        &[],
        &[
            "kafka.bootstrap_servers=h:1",
            "kafka.sasl_mechanism=OAUTHBEARER",
            "kafka.oauth.token_file=/t",
            "kafka.oauth.scope=kafka",
        ],
        &["error[E0202]: kafka.oauth.token_file is set, but kafka.oauth.scope is, too: use one source\n  \
           set by --set (kafka.oauth.token_file)"],
    ),
    (
        "",
        &[],
        &["kafka.bootstrap_servers=a, b:1, c:0"],
        &[
            "error[E0202]: kafka.bootstrap_servers holds \"a\", but must be host:port, separated by commas\n  \
             set by --set (kafka.bootstrap_servers)",
            "error[E0202]: kafka.bootstrap_servers holds \"c:0\", but must be host:port, separated by commas\n  \
             set by --set (kafka.bootstrap_servers)",
        ],
    ),
    (
        "[kafka]\nbootstrap_servers = \"a:1\"\nsasl_mechanism = \"PLAIN\"\n",
        &[],
        &["kafka.cert_file=a"],
        &[
            "error[E0202]: kafka.sasl_mechanism is set, but kafka.username is not\n  set in loopwarden.toml:3:18 (kafka.sasl_mechanism)",
            "error[E0202]: kafka.sasl_mechanism is set, but kafka.password_file is not\n  \
             set in loopwarden.toml:3:18 (kafka.sasl_mechanism)",
            "error[E0202]: kafka.cert_file is set, but kafka.key_file is not\n  set by --set (kafka.cert_file)",
        ],
    ),
    (
        "[kafka]\nbootstrap_servers = \"a:1\"\nkey_file = \"a\"\nusername = \"b\"\n",
        &[],
        &[],
        &[
            "error[E0202]: kafka.key_file is set, but kafka.cert_file is not\n  set in loopwarden.toml:3:12 (kafka.key_file)",
            "error[E0202]: kafka.username is set, but kafka.sasl_mechanism is not\n  set in loopwarden.toml:4:12 (kafka.username)",
        ],
    ),
    (
        "[kafka]\ngroup = \"a\"\n",
        &[],
        &[],
        &["error[E0202]: kafka.bootstrap_servers is not set, but kafka.group is\n  set in loopwarden.toml:2:9 (kafka.group)"],
    ),
];

/// Key, the last value that is accepted, the first that is not, and what is said then.
pub(super) const BOUNDS: &[(&str, &str, &str, &str)] = &[
    ("lanes", "256", "257", "lanes is 257, but must not be above 256"),
    ("lanes", "0", "-1", "lanes is -1, but must be at least 0"),
    ("policy", "attocode", "", "policy is empty, but must be the name of a profile or a file"),
    ("instance", "lw-0.a_b", "lw 0", "instance is \"lw 0\", but must be 1 to 128 letters, digits, '.', '_' or '-'"),
    (
        "data_dir",
        "./lw",
        "/tmp/lw",
        "data_dir is \"/tmp/lw\", but must not be a temporary directory: cleaners delete state there",
    ),
    (
        "data_dir",
        "/tmpfiles",
        "/var/tmp",
        "data_dir is \"/var/tmp\", but must not be a temporary directory: cleaners delete state there",
    ),
    ("log.format", "json", "xml", "log.format is \"xml\", but must be one of: auto, text, json"),
    (
        "http.listen",
        "[::1]:0",
        "localhost:1",
        "http.listen is \"localhost:1\", but must be an address and a port, as 127.0.0.1:9464: names are not looked up",
    ),
    ("http.token_file", "x", "", "http.token_file is empty, but must be a path"),
    (
        "kafka.token_proxy",
        "environment",
        "http://proxy",
        "kafka.token_proxy is \"http://proxy\", but must be http://HOST:PORT without a password, or environment",
    ),
    (
        "kafka.token_proxy",
        "http://proxy:3128",
        "http://me:s@proxy:3128",
        "kafka.token_proxy is \"http://me:s@proxy:3128\", but must be http://HOST:PORT without a password, or environment",
    ),
    ("limits.record_bytes_max", "1048576", "1048577", "limits.record_bytes_max is 1048577, but must not be above 1048576"),
    ("limits.record_bytes_max", "1024", "1023", "limits.record_bytes_max is 1023, but must be at least 1024"),
    ("limits.session_cache_bytes", "1048576", "1048575", "limits.session_cache_bytes is 1048575, but must be at least 1048576"),
    ("limits.block_cache_bytes", "1048576", "1048575", "limits.block_cache_bytes is 1048575, but must be at least 1048576"),
    ("limits.write_buffer_bytes", "1048576", "1048575", "limits.write_buffer_bytes is 1048575, but must be at least 1048576"),
    (
        "limits.fetch_queue_bytes",
        "1073741824",
        "1073741825",
        "limits.fetch_queue_bytes is 1073741825, but must not be above 1073741824",
    ),
    ("commit.commit_ms_min", "100", "101", "commit.commit_ms_min is 101, but must not be above commit_ms_max (100)"),
    ("commit.commit_ms_max", "5000", "5001", "commit.commit_ms_max is 5001, but must not be above 5000"),
    ("commit.overlay_bytes_max", "1048576", "1", "commit.overlay_bytes_max is 1, but must be at least 1048576"),
    ("commit.overlay_records_max", "1", "0", "commit.overlay_records_max is 0, but must be at least 1"),
    ("time.lateness_ms", "86400000", "86400001", "time.lateness_ms is 86400001, but must not be above 86400000"),
    ("embedded.partitions", "64", "65", "embedded.partitions is 65, but must not be above 64"),
    ("embedded.retention_ms", "60000", "59999", "embedded.retention_ms is 59999, but must be at least 60000"),
    (
        "kafka.bootstrap_servers",
        "a:65535",
        "a:65536",
        "kafka.bootstrap_servers holds \"a:65536\", but must be host:port, separated by commas",
    ),
    (
        "kafka.bootstrap_servers",
        "[::1]:1",
        "kafka://a:1",
        "kafka.bootstrap_servers holds \"kafka://a:1\", but must be host:port, separated by commas",
    ),
    (
        "kafka.start",
        "latest",
        "first",
        "kafka.start is \"first\", but must be earliest, latest or a time as 2026-01-31T00:00:00Z",
    ),
    ("kafka.dlq_content", "hash", "some", "kafka.dlq_content is \"some\", but must be one of: full, hash, none"),
    ("kafka.on_input_loss", "stop", "halt", "kafka.on_input_loss is \"halt\", but must be one of: continue, stop"),
    ("kafka.on_bad_records", "stop", "halt", "kafka.on_bad_records is \"halt\", but must be one of: continue, stop"),
    ("kafka.input", "a.b_c-d", "a/b", "kafka.input is \"a/b\", but must be 1 to 249 letters, digits, '.', '_' or '-'"),
    ("kafka.group", "a", "", "kafka.group is \"\", but must be 1 to 128 letters, digits, '.', '_' or '-'"),
    ("kafka.dlq", "x", "agents.loop-state.v1", "kafka.dlq is \"agents.loop-state.v1\", but must not be the topic of kafka.state"),
    (
        "kafka.sasl_mechanism",
        "SCRAM-SHA-512",
        "GSSAPI",
        "kafka.sasl_mechanism is \"GSSAPI\", but must be one of: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM",
    ),
];
