// What a run that passed the limit left can be removed.
fs.rmSync('/mnt/data/.volume', { recursive: true });
