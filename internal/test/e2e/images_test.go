//go:build unix

package e2e

import "testing"

// Nothing that is in an image takes another user or group, and time zones have the names that people write.
func TestImagesHaveNoSetIDProgramsAndOldTimeZones(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	play(t, s, python, []step{
		{code: "!find / -xdev -perm /6000 2>/dev/null", none: true, stdout: ""},
		{code: "!TZ=US/Eastern date -d 2024-07-01 +%z", stdout: "-0400\n"},
		{code: "import datetime as dt, zoneinfo\nstr(dt.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Asia/Calcutta')))", result: "'2024-07-01 00:00:00+05:30'"},
		{code: "import pandas as pd\npd.Timestamp('2024-07-01', tz='US/Pacific').utcoffset()", result: "datetime.timedelta(days=-1, seconds=61200)"},
		{code: "import os, time\nos.environ['TZ'] = 'GB'; time.tzset()\ntime.localtime(1719835200).tm_hour", result: "13"},
		{code: "pd.DataFrame({'a': [1.25]}).style.format(precision=1).to_latex().count('1.2')", result: "1"},
		{code: "import sqlalchemy\npd.read_sql('select 1 + 1 as two', sqlalchemy.create_engine('sqlite://')).two[0]", result: "np.int64(2)"},
	})
	play(t, s, javascript, []step{
		{code: "require('child_process').spawnSync('find', ['/', '-xdev', '-perm', '/6000']).stdout.length", result: "0"},
		{code: "process.env.TZ = 'US/Eastern'\nnew Date(1719835200000).toString()", result: "'Mon Jul 01 2024 08:00:00 GMT-0400 (Eastern Daylight Time)'"},
		{code: "process.env.TZ = 'Asia/Calcutta'\nnew Date(1719835200000).getHours()", result: "17"},
		{code: "new Date(1719835200000).toLocaleTimeString('en-GB', { timeZone: 'Europe/Kiev' })", result: "'15:00:00'"},
		{code: "require('child_process').execSync('TZ=US/Eastern date -d 2024-07-01 +%z').toString()", result: "'-0400\\n'"},
	})
}
