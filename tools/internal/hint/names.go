// Modules that are named differently from their package, and modules without a package.

package hint

// distributions maps modules to differently named packages.
var distributions = map[string]string{
	"attr": "attrs", "Bio": "biopython", "bs4": "beautifulsoup4", "cairo": "pycairo", "cv2": "opencv-python-headless", "Crypto": "pycryptodome",
	"dateutil": "python-dateutil", "discord": "discord.py", "docx": "python-docx", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
	"fitz": "PyMuPDF", "git": "GitPython", "github": "PyGithub", "jose": "python-jose", "jwt": "PyJWT", "kafka": "kafka-python",
	"Levenshtein": "python-Levenshtein", "magic": "python-magic", "mpl_toolkits": "matplotlib", "nacl": "PyNaCl", "odf": "odfpy", "OpenSSL": "pyOpenSSL",
	"PIL": "pillow", "pptx": "python-pptx", "pylab": "matplotlib", "serial": "pyserial", "skimage": "scikit-image",
	"sklearn": "scikit-learn", "slugify": "python-slugify", "socks": "PySocks", "tables": "tables", "telegram": "python-telegram-bot",
	"umap": "umap-learn", "usb": "pyusb", "websocket": "websocket-client", "wordcloud": "wordcloud", "yaml": "PyYAML", "zmq": "pyzmq",
}

// isDriver are the modules and packages that connect to databases.
var isDriver = map[string]bool{
	"psycopg": true, "psycopg2": true, "asyncpg": true, "pg8000": true, "pymysql": true, "MySQLdb": true, "mysql": true, "aiomysql": true,
	"pyodbc": true, "pymssql": true, "aioodbc": true, "oracledb": true, "cx_Oracle": true, "pymongo": true, "motor": true, "redis": true,
	"pg": true, "postgres": true, "mysql2": true, "mssql": true, "tedious": true, "mongodb": true, "mongoose": true, "ioredis": true,
}

// foreign maps Python's own modules that this Python lacks to a hint.
var foreign = map[string]string{
	"winreg": windows, "_winreg": windows, "msvcrt": windows, "winsound": windows, "_winapi": windows, "win32api": windows, "win32com": windows, "pythoncom": windows, "wmi": windows,
	"distutils": dropped, "imp": dropped, "asynchat": dropped, "asyncore": dropped, "smtpd": dropped, "audioop": dropped, "cgi": dropped, "cgitb": dropped,
	"crypt": dropped, "imghdr": dropped, "nntplib": dropped, "pipes": dropped, "sndhdr": dropped, "telnetlib": dropped, "uu": dropped, "xdrlib": dropped,
	"urllib2": two, "ConfigParser": two, "Queue": two, "StringIO": two, "cPickle": two, "Tkinter": two, "httplib": two, "urlparse": two,
	"tkinter": screen, "_tkinter": screen, "turtle": screen,
	"torch": large, "torchvision": large, "tensorflow": large,
	"PyPDF2": " is called pypdf now: `from pypdf import PdfReader, PdfWriter`.", "pkg_resources": " has left setuptools: use importlib.metadata and importlib.resources.",
	"altair_saver": " is not needed any more: `chart.save(path)`.",
	"google":       family, "azure": family, "zope": family,
}

const (
	windows = " is for Windows, and this is Linux: no package brings it."
	dropped = " is no part of Python any more: use what its documentation names in its place."
	two     = " is a module of Python 2; Python 3 has it under another name."
	large   = " is larger than packages may be here (--package-size-limit): the user can name an image that has it (--python-image)."
	family  = " is the family of many packages, and none of them is here: name the one that has the part, as its documentation does."
	screen  = " is not in this image, and there is no screen for it. Figures of Matplotlib and Plotly come back as images."
)
