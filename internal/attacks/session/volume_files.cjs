// A session may have no more files and folders than the limit.
//
// Tried: empty files, a thousand to a folder, until they are more than that. Where the limit is above 10,000, a session with that limit is attacked.
let many = FACTS.limits.volume_files + 1;
const put = (path) => fs.closeSync(fs.openSync(path, 'w'));
for (let number = 0; number < many; number++) {
  if (number % 1000 === 0) fs.mkdirSync(`/mnt/data/.volume/${number / 1000}`, { recursive: true });
  put(`/mnt/data/.volume/${Math.floor(number / 1000)}/${number}`);
}
// It is stopped while it goes on, on a slow machine as late as its files are counted.
for (const end = Date.now() + 1000 * FACTS.patience_seconds; Date.now() < end;) {
  put(`/mnt/data/.volume/0/more ${many++}`);
  await new Promise((resolve) => { setTimeout(resolve, 20); });
}
throw new GaveWay(`${many} files were had`);
