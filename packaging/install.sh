#!/bin/sh
# Installs a release of RRDMA without root:
#   curl -fsSL https://github.com/OWNER/rrdma/releases/latest/download/install.sh | sh
#   sh install.sh [--version VERSION] [--prefix FOLDER] [--from URL|FOLDER]
#   sh install.sh --uninstall [--prefix FOLDER]
# The release goes to PREFIX/lib/rrdma/VERSION; PREFIX/bin, share/man and share/bash-completion get links to it. PREFIX
# is ~/.local, or /usr/local for root. The checksum of the archive must be the one in SHA256SUMS. An upgrade keeps the
# folder of the older version, because running programs may use it; --uninstall removes all of them.
# Everything is in functions, so that a download that breaks off runs nothing.
set -eu

say() { printf 'rrdma: %s\n' "$*"; }
fail() {
  printf 'rrdma: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# fetch SOURCE FILE
fetch() {
  case $1 in
    http://* | https://*)
      if have curl; then
        curl -fsSL --retry 3 -o "$2" "$1"
      elif have wget; then
        wget -q -O "$2" "$1"
      else
        fail 'install curl or wget first'
      fi || fail "cannot download $1"
      ;;
    *) cp "$1" "$2" 2>/dev/null || fail "there is no file $1" ;;
  esac
}

check_machine() {
  [ "$(uname -s)" = Linux ] || fail 'RRDMA runs on Linux only'
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no release for $(uname -m); build it from source" ;;
  esac
  libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || fail 'RRDMA needs the GNU C library; musl (Alpine) does not do'
  minor=${libc#glibc 2.}
  minor=${minor%%.*}
  [ "$minor" -ge 31 ] || fail "RRDMA needs glibc 2.31 or newer; this is $libc"
}

# The checksum of FILE must stand in SUMS beside its NAME: verify FILE NAME SUMS.
verify() {
  wanted=$(awk -v name="$2" '$2 == name || $2 == "*" name { print $1 }' "$3")
  [ -n "$wanted" ] || fail "SHA256SUMS does not name $2"
  if have sha256sum; then
    found=$(sha256sum <"$1")
  else
    found=$(shasum -a 256 <"$1")
  fi
  [ "${found%% *}" = "$wanted" ] || fail "the checksum of $2 is wrong; nothing was installed"
}

# Links FILE to the path NAME, replacing only an older link of ours: link FILE NAME.
link() {
  mkdir -p "$(dirname "$2")"
  if [ -e "$2" ] || [ -L "$2" ]; then
    case $(readlink "$2" 2>/dev/null) in
      "$home"/*) ;;
      *) fail "$2 is not from this installer; remove it, or choose another --prefix" ;;
    esac
  fi
  ln -s "$1" "$2.new.$$"
  mv -f "$2.new.$$" "$2"
}

# The links to the release TREE, as lines FILE NAME.
links() {
  for file in "$1"/bin/* "$1"/share/man/man*/* "$1"/share/bash-completion/completions/*; do
    if [ -e "$file" ]; then printf '%s %s\n' "$file" "$prefix/${file#"$1"/}"; fi
  done
}

remove_links() {
  for name in "$prefix"/bin/* "$prefix"/share/man/man*/* "$prefix"/share/bash-completion/completions/*; do
    case $(readlink "$name" 2>/dev/null) in
      "$home"/*) rm -f "$name" ;;
    esac
  done
}

uninstall() {
  [ -d "$home" ] || fail "there is no RRDMA in $prefix"
  remove_links
  rm -rf "$home"
  for folder in bin lib share/man/man1 share/man/man3 share/man/man5 share/man/man7 share/man/man8 share/man \
    share/bash-completion/completions share/bash-completion share; do
    rmdir "$prefix/$folder" 2>/dev/null || true
  done
  say "removed from $prefix"
}

install_release() {
  check_machine
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  trap 'exit 1' HUP INT TERM
  fetch "$from/SHA256SUMS" "$temporary/SHA256SUMS"
  if [ -z "$version" ]; then
    version=$(sed -n "s/.* [*]\{0,1\}rrdma-\([0-9.]*\)-linux-${arch}[.]tar[.]gz\$/\1/p" "$temporary/SHA256SUMS")
    [ -n "$version" ] || fail "$from has no release for $arch"
  fi
  packed=tar.gz
  if have xz; then packed=tar.xz; fi
  archive=rrdma-$version-linux-$arch.$packed
  fetch "$from/$archive" "$temporary/$archive"
  verify "$temporary/$archive" "$archive" "$temporary/SHA256SUMS"
  case $packed in
    tar.xz) xz -d -c "$temporary/$archive" ;;
    *) gzip -d -c "$temporary/$archive" ;;
  esac | tar -x -f - -C "$temporary" --no-same-owner
  mkdir -p "$home"
  tree=$home/$version
  rm -rf "$home/.new"
  mv "$temporary/${archive%."$packed"}" "$home/.new"
  rm -rf "$tree"
  mv "$home/.new" "$tree"
  remove_links
  links "$tree" | while read -r file name; do link "$file" "$name"; done
  say "version $version is in $tree"
  case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) say "add $prefix/bin to your PATH" ;;
  esac
  if ! "$prefix/bin/rrdma" --version >/dev/null; then fail 'the program does not start here; see above'; fi
  if ! { ldconfig -p 2>/dev/null || /sbin/ldconfig -p; } | grep -q 'libibverbs\.so\.1'; then
    say 'RDMA programs need libibverbs: apt install libibverbs1, dnf install libibverbs or pacman -S rdma-core'
  fi
  say "try: rrdma run -- ibv_devinfo      remove: sh $tree/share/rrdma/install.sh --uninstall --prefix $prefix"
}

main() {
  version='' prefix=${RRDMA_PREFIX:-} from=${RRDMA_RELEASE:-} remove=''
  while [ $# -gt 0 ]; do
    case $1 in
      --uninstall) remove=1 ;;
      --version | --prefix | --from)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case $1 in
          --version) version=${2#v} ;;
          --prefix) prefix=$2 ;;
          --from) from=$2 ;;
        esac
        shift
        ;;
      -h | --help)
        sed -n '2,9s/^# \{0,1\}//p' "$0" 2>/dev/null || true
        exit 0
        ;;
      *) fail "there is no option $1" ;;
    esac
    shift
  done
  case $version in *[!0-9.]*) fail "a version is like 0.2.0, not $version" ;; esac
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?}/.local; fi
  fi
  case $prefix in
    *[!A-Za-z0-9_./+-]*) fail "the prefix may have letters, digits and _ . / + - only" ;;
    /*) ;;
    *) prefix=$PWD/$prefix ;;
  esac
  home=$prefix/lib/rrdma
  if [ -z "$from" ]; then
    from=https://github.com/OWNER/rrdma/releases/${version:+download/v$version}
    if [ -z "$version" ]; then from=${from}latest/download; fi
  fi
  if [ -n "$remove" ]; then uninstall; else install_release; fi
}

main "$@"
