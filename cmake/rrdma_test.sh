#!/bin/sh
# rrdma_test.sh FOLDER NAME RRDMA OPTION... -- PROGRAM...: runs a test of rrdma_add_test() and tells why it failed. FOLDER
# may be empty: then RRDMA_REPORT decides. The exit status is that of the program.
folder=${1:-$RRDMA_REPORT}
name=$(printf %s "$2" | tr -c 'A-Za-z0-9._-' _)
rrdma=$3
shift 3
if [ -n "$folder" ]; then
  mkdir -p "$folder" || exit 1
  "$rrdma" run --pcap "$folder/$name.pcapng" "$@"
else
  "$rrdma" run "$@"
fi
status=$?
if [ $status -eq 0 ]; then
  [ -z "$folder" ] || rm -f "$folder/$name.pcapng"
  exit 0
fi
for what in explain stat; do
  text=$("$rrdma" $what 2>&1)
  printf '\n---- rrdma %s ----\n%s\n' $what "$text"
  [ -z "$folder" ] || printf '%s\n' "$text" >"$folder/$name.$what.txt"
done
if [ -n "$folder" ] && [ -s "$folder/$name.pcapng" ]; then
  if "$rrdma" inspect --export "$folder/$name.html" "$folder/$name.pcapng" 2>/dev/null; then
    printf '\n---- rrdma inspect ----\n%s\n' "$folder/$name.html"
    # CTest attaches the file to the test.
    printf '<CTestMeasurementFile type="file" name="rrdma inspect">%s</CTestMeasurementFile>\n' "$folder/$name.html"
  fi
fi
exit $status
