// A session's files may take no more than the volume's limit.
//
// Tried: files with holes, as large as may be, until they are more than that, in a folder that its owner may not list.
fs.mkdirSync('/mnt/data/.volume', { recursive: true });
fs.chmodSync('/mnt/data', 0o300);
const each = FACTS.limits.file_bytes;
const files = Math.floor(FACTS.limits.volume_bytes / each) + 1;
for (let number = 0; number < files; number++) {
  fs.writeFileSync(`/mnt/data/.volume/${number}`, '');
  fs.truncateSync(`/mnt/data/.volume/${number}`, each);
}
// It is stopped while it goes on; one block after the other makes it known that it writes.
const more = fs.openSync('/mnt/data/.volume/more', 'w');
const block = Buffer.alloc(65536, 'x');
let at = 0;
for (const end = Date.now() + 1000 * FACTS.patience_seconds; Date.now() < end;) {
  at += fs.writeSync(more, block, 0, block.length, at);
  if (at > each / 2) {
    fs.ftruncateSync(more, 0);
    at = 0;
  }
  await new Promise((resolve) => { setTimeout(resolve, 20); });
}
throw new GaveWay(`${files} files of ${each} bytes were had`);
