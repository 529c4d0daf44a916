"""What a run that passed the limit left can be removed."""
import shutil

os.chmod("/mnt/data/.volume", 0o700)
shutil.rmtree("/mnt/data/.volume")
shutil.rmtree("/mnt/.state/.volume", ignore_errors=True)
