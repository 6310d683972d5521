// Client of consign: enqueue in your transaction, work, and receive webhooks. Nothing here decides
// anything: the functions of schema `consign` and the HTTP API do.

export { fromPg, fromPostgres, fromPrisma, fromQuery, type Db, type Row } from "./db.js";
export { rawJson, RawJson } from "./encoding.js";
export * from "./errors.js";
export { HttpClient, type HttpOptions } from "./http.js";
export * from "./model.js";
export * as receiver from "./receiver.js";
export * from "./sql.js";
export { assertEnqueued, enqueuedIn, type Expected, type Found } from "./testing.js";
export {
  listenPg,
  listenPostgres,
  sqlSource,
  Worker,
  type Handler,
  type Listen,
  type Source,
  type WorkerOptions,
} from "./worker.js";
