#!/bin/sh
# Uses a part of what the standard image promises, as its user: standard, browser or full. Runs at the end of each part's build, so that an
# image that lost something is never made; runs in a finished image just as well.
set -eu
part=$1
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT && cd "$folder"
ok() { echo "smoke: $* ok"; }
printf '# Title\n\nSome *text* of é 你好\n' >a.md
pandoc --standalone --metadata title=a a.md -o a.html
pandoc a.md -o a.docx

case $part in
standard)
	python3 "$here/smoke.py"
	node "$here/smoke.cjs"
	python3 -c 'import subprocess; subprocess.run(["node", "-e", "require(\"lodash\")"], check=True)'
	node -e 'require("node:child_process").execFileSync("python3", ["-c", "import numpy"])'
	ok "the languages find each other"
	grep -q '<em>text</em>' a.html
	file a.docx | grep -q 'Microsoft Word' && unzip -p a.docx word/document.xml | grep -q 你好
	python3 -c 'from reportlab.pdfgen.canvas import Canvas; c = Canvas("a.pdf"); c.drawString(72, 72, "on paper"); c.save()'
	pdftotext a.pdf - | grep -q 'on paper' && pdftoppm -r 20 -png a.pdf page && file page*.png | grep -q PNG
	echo '{"a": [1, 2]}' | jq -e '.a[1] == 2' >/dev/null
	rg -q text . && tree . >/dev/null && less --version >/dev/null && sqlite3 :memory: 'select 1' >/dev/null && ps >/dev/null && free >/dev/null && zip -q a.zip a.md
	ok programs
	;;
browser) # red comes of WebGL, so SwiftShader draws it
	chromium-headless-shell --no-sandbox --disable-gpu --window-size=400,300 --screenshot="$folder/page.png" "file://$here/smoke.html" 2>/dev/null
	python3 -c 'from PIL import Image; p = Image.open("page.png").convert("RGB").getpixel((200, 150)); assert p == (255, 0, 0), p'
	chromium-headless-shell --no-sandbox --disable-gpu --print-to-pdf="$folder/page.pdf" "file://$folder/a.html" 2>/dev/null
	pdftotext page.pdf - | grep -q 你好
	ok browser
	;;
full)
	python3 "$here/smoke.py" full
	node "$here/smoke.cjs" full
	soffice --headless --convert-to pdf a.docx >/dev/null && pdftotext a.pdf - | grep -q 你好
	pdftoppm -r 150 -png -singlefile a.pdf shown && tesseract shown.png - 2>/dev/null | grep -q Title
	ffmpeg -loglevel error -f lavfi -i testsrc=duration=1 a.mp4 && file a.mp4 | grep -q 'ISO Media'
	ok "LibreOffice, tesseract, ffmpeg"
	;;
*)
	echo "smoke: standard, browser or full, not $part" >&2
	exit 2
	;;
esac
