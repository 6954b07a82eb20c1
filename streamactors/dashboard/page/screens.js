// The screens that are tables. Each screen: title, present(state) -> whether it is shown, make() -> { node, update(state) }.

import { bytes, clock, compact, count, duration, moment, rate, seconds, share, text, yes } from "./format.js";
import { html } from "./dom.js";
import { Table, number, word } from "./table.js";
import { Chart } from "./chart.js";
import { letters } from "./letters.js";
import { records } from "./records.js";

function tables(...parts) {
  return () => {
    const made = parts.map(([make, rows]) => [make(), rows]);
    return {
      node: html("div", {}, ...made.map(([table]) => table.node)),
      update: (state) => made.forEach(([table, rows]) => table.update(rows(state) || [])),
    };
  };
}

const list = (value) => (value && value.length ? value.join(", ") : "–");
const held = (row) => (row.oldest_mark ? `${count(row.oldest_mark.position)} for ${duration(row.oldest_mark.age_ms)} by ${row.oldest_mark.sink}` : "–");
const partitionRows = (state) => state.consumers.flatMap((consumer) =>
  consumer.partitions.map((row) => ({ ...row, graph: consumer.graph, group: consumer.group })));

export const partitionsTable = () => new Table("Partitions", [
  word("topic", "Topic"), number("partition", "Partition", count), word("group", "Group"),
  number("lag", "Lag", count, (row) => (row.lag_seconds > 10 ? "late" : "")),
  number("lag_seconds", "Lag, time", seconds, (row) => (row.lag_seconds > 10 ? "late" : "")),
  number("per_s", "Records", rate), number("position", "Position", count), number("done", "Done", count),
  number("committed", "Committed", count), number("end", "End", count),
  number("buffered_records", "Buffered", count), number("buffered_bytes", "Bytes", bytes), number("in_flight", "In flight", count),
  word("paused", "Paused", (value, row) => (value ? `paused: ${text(row.paused_by)}` : "no"), (row) => (row.paused ? "paused" : "")),
  { title: "Oldest open mark", value: (row) => (row.oldest_mark ? row.oldest_mark.age_ms : null), show: held, number: false },
], { sort: 4, descending: true });

function partitions() {
  const lag = new Chart("Lag of all partitions", "records");
  const consumers = new Table("Consumers", [
    word("graph", "Graph"), word("group", "Group"), word("client", "Client"), number("demand", "Demand", compact),
    number("delivered", "Delivered", count), number("pauses", "Pauses", count), number("resumes", "Resumes", count),
    word("process", "Process"),
  ]);
  const transactions = new Table("Transactions", [
    word("graph", "Graph"), word("id", "Transaction"), word("phase", "Phase"), word("since_ms", "Since", clock), word("parts", "Parts", list),
    number("committed", "Committed", count), number("aborted", "Aborted", count, (row) => (row.aborted > 0 ? "late" : "")),
    number("written_again", "Written again", count), number("last_ms", "Last commit took", duration),
  ]);
  const table = partitionsTable();
  const rebalances = new Table("Rebalances", [
    word("at_ms", "At", clock), word("group", "Group"), word("kind", "What"), word("partitions", "Partitions", list),
    word("why", "Why"), number("took_ms", "Took", duration), word("graph", "Graph"),
  ], { descending: true });
  return {
    node: html("div", {}, lag.node, table.node, consumers.node, transactions.node, rebalances.node),
    update(state, series) {
      lag.update(series.lag);
      consumers.update(state.consumers);
      transactions.update(state.consumers.filter((each) => each.transactions).map((each) => ({ ...each.transactions, graph: each.graph })));
      table.update(partitionRows(state));
      rebalances.update(state.consumers.flatMap((each) => (each.rebalances || []).map((row) => ({ ...row, group: each.group, graph: each.graph }))));
    },
  };
}

const nodes = (part) => (state) => (state.broker ? state.broker.nodes.flatMap((node) => (node[part] || []).map((row) => ({ ...row, node: node.id }))) : []);
const any = (...names) => (state) => names.some((name) => state[name] && state[name].length);
const broker = (name) => (state) => (state.broker ? state.broker[name] : []);

export const SCREENS = [
  { id: "partitions", title: "Partitions", present: any("consumers"), make: partitions },
  { id: "time", title: "Time and state", present: any("windows", "stores"), make: tables(
    [() => new Table("Windows", [
      word("graph", "Graph"), word("task", "Task"), word("stream_time_ms", "Stream time", moment), number("open_windows", "Open", count),
      word("next_close_ms", "Next close", moment), number("suppressed", "Held by suppress", count),
      number("rows", "Rows", count), number("late", "Late", count, (row) => (row.late > 0 ? "late" : "")), number("dropped", "Dropped", count),
    ]), (state) => state.windows],
    [() => new Table("Late rows (samples)", [
      word("task", "Task"), word("key", "Key"), word("timestamp_ms", "Time", moment), number("behind_ms", "Behind", duration),
    ]), (state) => (state.windows || []).flatMap((each) => (each.late_samples || []).map((row) => ({ ...row, task: each.task })))],
    [() => new Table("Stores", [
      word("name", "Store"), word("task", "Task"), word("graph", "Graph"), word("kind", "Kind", (value, row) => `${value}${row.standby ? ", standby" : ""}`), number("entries", "Entries", count), number("bytes", "Size", bytes),
      number("cache_hits", "Cache hits", share),
      { title: "Restored", value: (row) => (row.restore_total ? (row.restored || 0) / row.restore_total : null), number: false, tone: (row) => (row.restoring ? "late" : ""),
        show: (row) => (row.restore_total ? `${count(row.restored)} of ${count(row.restore_total)}${row.restoring ? ", restoring" : ""}` : "–") },
    ]), (state) => state.stores]) },
  { id: "records", title: "Records", present: (state) => Boolean(state.graphs.length || state.broker), make: records },
  { id: "latency", title: "Latency", present: any("latency"), make: tables(
    [() => new Table("Latency of each hop", [
      number("place", "Place", (value) => count(value + 1)), word("hop", "Hop"), word("graph", "Graph"), number("n", "Samples", count),
      number("p50_ms", "p50", duration), number("p99_ms", "p99", duration), number("max_ms", "Most", duration), number("mean_ms", "Mean", duration),
      number("working_ms", "Working", duration), number("waiting_ms", "Waiting", duration),
      word("clock_skew", "Clock skew", yes, (row) => (row.clock_skew ? "late" : "")),
    ]), (state) => (state.latency || []).filter((row) => !row.whole)],
    [() => new Table("Whole journeys, to each sink and to the commit", [
      word("hop", "To"), word("graph", "Graph"), number("n", "Samples", count),
      number("p50_ms", "p50", duration), number("p99_ms", "p99", duration), number("max_ms", "Most", duration), number("mean_ms", "Mean", duration),
      word("clock_skew", "Clock skew", yes, (row) => (row.clock_skew ? "late" : "")),
    ]), (state) => (state.latency || []).filter((row) => row.whole)]) },
  { id: "broker", title: "Broker", present: (state) => Boolean(state.broker && (state.broker.nodes || []).length), make: tables(
    [() => new Table("Nodes", [
      number("id", "Node", text), word("role", "Role", (value, row) => `${value}${row.controller ? ", active controller" : ""}`), word("address", "Address"),
      number("leader_of", "Leads", count), number("disk_bytes", "Disk", bytes), number("request_ms_p99", "Produce, p99", duration),
      number("disk_write_ms_p99", "Disk write, p99", duration), number("disk_write_ms_max", "Disk write, most", duration), number("disk_busy", "Disk busy", share, (row) => (row.disk_busy > 0.3 ? "late" : "")),
      number("connections", "Connections", count), number("produce_purgatory", "Waiting: Produce", count), number("fetch_purgatory", "Waiting: Fetch", count),
      { title: "Waiting: all", value: (row) => ((row.produce_purgatory ?? null) === null ? row.purgatory : null), show: (row) => count(row.purgatory), number: true },
      number("throttled", "Throttled", count, (row) => (row.throttled > 0 ? "late" : ""))]), broker("nodes")],
    [() => new Table("Requests", [
      number("node", "Node", text), word("api", "API"), number("per_s", "Rate", rate), number("ms_p50", "p50", duration), number("ms_p99", "p99", duration),
      number("ms_max", "Most", duration), number("local_ms_p99", "Work, p99", duration)], { sort: 4, descending: true }), nodes("requests")],
    [() => new Table("Disks", [
      number("node", "Node", text), word("folder", "Folder"), number("bytes", "Logs", bytes), number("free_bytes", "Free", bytes), number("total_bytes", "Size", bytes),
      word("error", "Error", text, (row) => (row.error ? "late" : ""))]), nodes("disks")],
    [() => new Table("Topics", [
      word("name", "Topic"), number("partitions", "Partitions", count),
      number("under_replicated", "Under-replicated", count, (row) => (row.under_replicated > 0 ? "late" : "")),
      number("bytes", "Size", bytes), number("messages_per_s", "Messages", rate)]), broker("topics")],
    [() => new Table("Replicas", [
      word("topic", "Topic"), number("partition", "Partition", count), number("leader", "Leader", text), word("isr", "In sync", list),
      word("replicas", "Replicas", list), number("start", "Start", count), number("end", "End", count)]), broker("partitions")],
    [() => new Table("Changes of replicas in sync", [
      word("at_ms", "At", clock), word("topic", "Topic"), number("partition", "Partition", count), word("before", "Before", list), word("after", "After", list),
      number("leader", "Leader", text)], { descending: true }), broker("isr_changes")],
    [() => new Table("Groups", [
      word("id", "Group"), word("kind", "Kind"), word("state", "State"), number("members", "Members", count), number("lag", "Lag", count)]), broker("groups")],
    [() => new Table("Transactions", [word("id", "Transaction"), word("state", "State"), number("age_ms", "Age", duration),
      number("producer_id", "Producer id", text)]), broker("transactions")],
    [() => new Table("Quotas", [
      word("entity", "Of"), word("key", "Quota"), number("value", "Value", count)]), broker("quotas")]) },
  { id: "spark", title: "Spark", present: any("spark"), make: tables(
    [() => new Table("Queries", [
      word("query", "Query"), word("graph", "Graph"), word("phase", "Phase"), number("writing_rows", "Writing now", (value) => ((value ?? null) === null ? "–" : `${count(value)} rows`)),
      number("writing_ms", "For", duration), number("gathered_rows", "Waiting rows", count), number("batch", "Last batch", count), number("rows", "Its rows", count), number("duration_ms", "Its duration", duration),
      number("demand", "Demand", count), word("process", "Process")]), (state) => state.spark],
    [() => new Table("Executors", [
      word("id", "Executor"), word("state", "State"), word("query", "Query"), word("address", "Address"), number("cores", "Cores", count), number("tasks", "Tasks now", count),
      number("done", "Done", count), number("failed", "Failed", count, (row) => (row.failed > 0 ? "late" : "")), number("memory_bytes", "Memory", bytes),
      number("memory_total_bytes", "Of", bytes)]),
      (state) => state.spark.flatMap((each) => (each.executors || []).map((row) => ({ ...row, query: each.query })))]) },
  { id: "dead", title: "Dead letters", make: letters,
    present: (state, able) => state.dead_letters.length > 0 || (state.consumers.length > 0 && able.paths.includes("/api/dead-letters")) },
];
