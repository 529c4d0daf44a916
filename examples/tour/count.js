import { readFileSync } from "node:fs";
import { parse } from "csv-parse/sync";
import { mean, std } from "mathjs";

const rows = parse(readFileSync("output/wine.csv"), { columns: true, cast: true });
const cultivars: Record<string, number[]> = {};
for (const row of rows) (cultivars[row.cultivar] ??= []).push(row.alcohol);
console.table(Object.entries(cultivars).map(([cultivar, alcohol]) =>
  ({ cultivar, wines: alcohol.length, mean: +mean(alcohol).toFixed(2), std: +std(alcohol).toFixed(2) })));
