"""What a run that passed the limit left can be removed."""
import shutil

shutil.rmtree("/mnt/data/.volume")
