// A worker as a process: prints what its handler gets, and hangs in it where it should.
//
//     worker_program.js sql|http ADDRESS deliver|hang|slow

import pg from "pg";

import { fromPg, HttpClient, listenPg, sqlSource, Worker } from "../src/index.js";

const [transport, address, action] = process.argv.slice(2) as [string, string, string];
const pool = new pg.Pool({ connectionString: address });
pool.on("error", () => {});
const source =
  transport === "http"
    ? new HttpClient(address)
    : sqlSource(fromPg(pool), listenPg(() => new pg.Client(address)));
const worker = new Worker(
  source,
  "default",
  async (delivery) => {
    console.log(String(delivery.id), delivery.attemptNo, String(delivery.fence));
    if (action === "hang") await new Promise(() => setInterval(() => {}, 1_000));
    if (action === "slow") await new Promise((resolve) => setTimeout(resolve, 500));
  },
  { leaseMs: 2_000 },
);
await worker.run();
await pool.end();
