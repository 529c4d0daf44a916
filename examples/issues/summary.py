from sandbox import tools

numbers = tools.tracker.list_issues().split()
issues = [tools.tracker.get_issue(number=int(n)) for n in numbers]
still_open = [i for i in issues if i["state"] == "open"]
oldest = max(still_open, key=lambda i: i["days"])
print(f"{len(issues)} issues, {len(still_open)} of them open")
print(f"the oldest open one is #{oldest['number']}, {oldest['days']} days old")
print(f"{sum(len(i['comments']) for i in issues)} comments, {sum(len(str(i)) for i in issues) // 1000} kB read")
