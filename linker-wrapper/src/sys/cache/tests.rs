//! The store as a whole.

use std::process::Command;

use super::*;
use crate::sys::cache::KeyBuilder;
use crate::sys::cache::layout::is_entry;

impl Cache {
    /// The content of an entry, whatever it is.
    fn get(&self, key: &Key) -> Option<Vec<u8>> {
        self.get_if(key, |_| Some(())).map(|((), content)| content)
    }
}

fn key(text: &str) -> Key {
    KeyBuilder::new("test").field("text", text.as_bytes()).finish()
}

fn age(path: &Path, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    File::open(path).unwrap().set_modified(then).unwrap();
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// All files in the shards.
fn files(folder: &Path) -> Vec<PathBuf> {
    let shards = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir());
    shards.flat_map(|shard| fs::read_dir(shard.path()).unwrap().flatten()).map(|entry| entry.path()).collect()
}

#[test]
fn what_was_put_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("not").join("there"));
    assert_eq!(cache.get(&key("a")), None);
    for content in [&b""[..], b"x", &[7; 100_000]] {
        cache.put(&key("a"), content);
        assert_eq!(cache.get(&key("a")).as_deref(), Some(content));
    }
    assert_eq!(cache.get(&key("b")), None);
    assert_eq!(cache.hits_and_misses(), (3, 2));
    assert_eq!(cache.warning(), None);
    assert!(folder.path().join("not/there/CACHEDIR.TAG").exists());
}

#[test]
fn what_is_not_accepted_is_a_miss_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path());
    let accepted = || cache.get_if(&key("a"), |content| (content != b"empty").then_some(content.len()));
    cache.put(&key("a"), b"empty");
    assert_eq!(accepted(), None);
    cache.put(&key("a"), b"sound");
    assert_eq!(accepted(), Some((5, b"sound".to_vec())));
    assert_eq!(cache.hits_and_misses(), (1, 1));
}

#[test]
fn damage_of_any_byte_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, key) = (Cache::open(folder.path()), key("a"));
    cache.put(&key, b"some content");
    let path = cache.path(&key);
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len(), entry::HEADER + 12);
    let longer = [&whole[..], b"x"].concat();
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    let changed = (0..whole.len() * 8).map(|bit| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    for damaged in cut.chain(changed).chain([longer]) {
        fs::write(&path, &damaged).unwrap();
        assert_eq!(cache.get(&key), None, "{damaged:?}");
        assert!(!path.exists(), "a damaged entry stays");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(cache.get(&key).as_deref(), Some(&b"some content"[..]));
}

#[test]
fn an_entry_under_another_name_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path());
    cache.put(&key("a"), b"of a");
    let other = cache.path(&key("b"));
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::rename(cache.path(&key("a")), &other).unwrap();
    assert_eq!(cache.get(&key("b")), None);
}

#[test]
fn an_entry_of_another_version_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, key) = (Cache::open(folder.path()), key("a"));
    let mut bytes = Vec::new();
    entry::write(&mut bytes, &key, b"content").unwrap();
    // With a checksum that is right for it.
    bytes[8] += 1;
    let (start, content) = (bytes[..52].to_vec(), bytes[entry::HEADER..].to_vec());
    bytes[52..84].copy_from_slice(blake3::Hasher::new().update(&start).update(&content).finalize().as_bytes());
    fs::create_dir_all(cache.path(&key).parent().unwrap()).unwrap();
    fs::write(cache.path(&key), &bytes).unwrap();
    assert_eq!(cache.get(&key), None);
}

#[test]
fn a_folder_that_cannot_be_written_is_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    // A file in the way stops everybody, the superuser too.
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let cache = Cache::open(&file);
    cache.put(&key("a"), b"x");
    cache.put(&key("b"), b"x");
    assert_eq!(cache.get(&key("a")), None);
    cache.trim();
    assert!(cache.warning().unwrap().contains("cannot be written"));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn the_oldest_goes_first_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).with_capacity(Some(3300));
    for (name, days) in [("a", 4), ("b", 3), ("c", 9), ("d", 1)] {
        cache.put(&key(name), &[0; 1000]);
        age(&cache.path(&key(name)), days);
    }
    let shard = cache.path(&key("a")).parent().unwrap().to_owned();
    let (stale, fresh) = (shard.join(".fatlink-stale"), shard.join(".fatlink-fresh"));
    let foreign = [folder.path().join("notes.txt"), shard.join("notes.txt"), folder.path().join("x")];
    for path in foreign.iter().chain([&stale, &fresh]) {
        fs::write(path, [0; 5000]).unwrap();
        age(path, 100);
    }
    File::open(&fresh).unwrap().set_modified(SystemTime::now()).unwrap();
    cache.trim();
    let left = ["a", "b", "c", "d"].map(|name| cache.path(&key(name)).exists());
    // 4 * 1084 bytes are too many: two go, since 3 * 1084 would be above nine tenths.
    assert_eq!(left, [false, true, false, true]);
    assert!(!stale.exists() && fresh.exists() && foreign.iter().all(|path| path.exists()));
}

#[test]
fn a_full_disk_gets_room() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path());
    for (name, days) in [("a", 4), ("b", 3), ("c", 9), ("d", 1)] {
        cache.put(&key(name), &[0; 1000]);
        age(&cache.path(&key(name)), days);
    }
    // No test can fill a disk: the failure itself is made up.
    cache.failure.set(Failure { text: String::new(), full: true }).unwrap();
    cache.trim();
    assert_eq!(["a", "b", "c", "d"].map(|name| cache.path(&key(name)).exists()), [true, true, false, true]);
}

#[test]
fn trimming_is_rare_unless_much_was_added() {
    let folder = tempfile::tempdir().unwrap();
    let small = Cache::open(folder.path()).with_capacity(Some(100_000));
    small.put(&key("a"), &[0; 1000]);
    small.trim();
    let stamp = folder.path().join("trimmed");
    let first = modified(&stamp);
    small.trim();
    assert_eq!(modified(&stamp), first);
    small.put(&key("b"), &[0; 99_900]);
    small.trim();
    assert!(modified(&stamp) >= first);
    assert!(files(folder.path()).len() < 2);
    age(&stamp, 1);
    let old = modified(&stamp);
    Cache::open(folder.path()).trim();
    assert!(modified(&stamp) > old);
}

#[test]
fn use_makes_young_again_once_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path());
    cache.put(&key("a"), b"x");
    let path = cache.path(&key("a"));
    let first = modified(&path);
    cache.get(&key("a")).unwrap();
    assert_eq!(modified(&path), first);
    age(&path, 2);
    cache.get(&key("a")).unwrap();
    assert!(modified(&path) >= first);
}

/// What the processes of the next test do; by itself it does nothing.
#[test]
fn child_of_many_links() {
    let Some(folder) = std::env::var_os("FATLINK_TEST_CACHE") else { return };
    let cache = Cache::open(folder).with_capacity(Some(60_000));
    for round in 0..40_u32 {
        let name = format!("shared {}", round % 8);
        let content = name.repeat(1000);
        // A hit is right, whoever wrote it, and in whatever moment.
        if let Some(found) = cache.get(&key(&name)) {
            assert_eq!(found, content.as_bytes());
        }
        cache.put(&key(&name), content.as_bytes());
        let own = format!("{} {round}", std::process::id());
        cache.put(&key(&own), own.as_bytes());
        cache.trim();
    }
    assert_eq!(cache.warning(), None);
}

#[test]
fn many_links_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sys::cache::store::tests::child_of_many_links"]);
        command.env("FATLINK_TEST_CACHE", folder.path()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let cache = Cache::open(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..100 {
                    let name = format!("{}", (round + thread) % 10);
                    cache.put(&key(&name), name.repeat(500).as_bytes());
                    assert_eq!(cache.get(&key(&name)), Some(name.repeat(500).into_bytes()));
                }
            });
        }
    });
    assert!(files(folder.path()).iter().all(|path| is_entry(path)), "a temporary file stays");
}

/// What may be in the place of an entry, and must be neither followed nor waited for.
#[test]
fn only_a_regular_file_is_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, key) = (Cache::open(folder.path().join("cache")), key("a"));
    cache.put(&key, b"mine");
    let path = cache.path(&key);
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    let fifo = |path: &Path| {
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    };
    fifo(&path);
    assert_eq!(cache.get(&key), None, "a FIFO");
    fs::remove_file(&path).unwrap();
    // Its target is a whole entry of the same key.
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(cache.get(&key), None, "a link");
    cache.put(&key, b"again");
    assert_eq!(cache.get(&key).as_deref(), Some(&b"again"[..]));
    assert!(elsewhere.exists() && path.symlink_metadata().unwrap().is_file());
    // One that others may have written to.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert_eq!(cache.get(&key), None, "writable for all");
    // A folder of entries that leads elsewhere.
    let (shard, away) = (path.parent().unwrap(), folder.path().join("away"));
    fs::rename(shard, &away).unwrap();
    fs::set_permissions(away.join(path.file_name().unwrap()), Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&away, shard).unwrap();
    assert_eq!(cache.get(&key), None, "a folder elsewhere");
    trim::make_room(&folder.path().join("cache"));
    assert!(away.join(path.file_name().unwrap()).exists());
    cache.put(&key, b"no");
    assert!(cache.warning().unwrap().contains("is no folder that only its owner may write to"));
}

#[test]
fn the_stamp_of_trimming_may_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).with_capacity(Some(10));
    cache.put(&key("a"), b"content");
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let stamp = folder.path().join("trimmed");
    std::os::unix::fs::symlink(&victim, &stamp).unwrap();
    cache.trim();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(stamp.symlink_metadata().unwrap().is_file());
    fs::remove_file(&stamp).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &stamp, kind, mode, 0).unwrap();
    cache.trim();
    assert!(stamp.symlink_metadata().unwrap().is_file());
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    Cache::open(&path).put(&key("a"), b"x");
    for (mode, used) in [(0o700, true), (0o755, true), (0o2775, true), (0o775, false), (0o777, false), (0o1777, false)]
    {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let cache = Cache::open(&path);
        assert_eq!(cache.get(&key("a")).is_some(), used, "{mode:o}");
        let before = files(&path).len();
        cache.put(&key(&format!("{mode}")), b"x");
        cache.trim();
        assert_eq!(files(&path).len() > before, used, "{mode:o}");
        assert_eq!(cache.warning().is_none(), used, "{mode:o}: {:?}", cache.warning());
    }
}
