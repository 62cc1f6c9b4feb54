//! Which ConfigMaps and Secrets are behind the watched paths, according to the Pod. Pure.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use podnudge_config::is_subdomain;
use podnudge_core::objects::{ObjectKind, ObjectName};
use podnudge_core::reason::Reason;

/// An object behind watched volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The kind and name of the object.
    pub object: ObjectName,
    /// The watched paths that show it, by their numbers; `None` if that is not known.
    pub paths: Option<Vec<usize>>,
    /// Whether a pod cannot start without it: then the volume stays as it is when it is deleted.
    pub is_required: bool,
}

impl Source {
    /// An object of which only the name is known.
    #[must_use]
    pub fn named(object: ObjectName) -> Self {
        Self { object, paths: None, is_required: false }
    }
}

#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    volumes: Option<Vec<Volume>>,
    #[serde(default)]
    init_containers: Option<Vec<Container>>,
    #[serde(default)]
    containers: Option<Vec<Container>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    volume_mounts: Option<Vec<VolumeMount>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeMount {
    #[serde(default)]
    name: String,
    #[serde(default)]
    mount_path: PathBuf,
    #[serde(default)]
    sub_path: String,
    #[serde(default)]
    sub_path_expr: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    #[serde(default)]
    name: String,
    #[serde(default)]
    config_map: Option<Named>,
    #[serde(default)]
    secret: Option<SecretName>,
    #[serde(default)]
    projected: Option<Projected>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
    #[serde(default)]
    optional: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SecretName {
    #[serde(default)]
    secret_name: String,
    #[serde(default)]
    optional: Option<bool>,
}

#[derive(Deserialize)]
struct Projected {
    #[serde(default)]
    sources: Option<Vec<Projection>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Projection {
    #[serde(default)]
    config_map: Option<Named>,
    #[serde(default)]
    secret: Option<Named>,
}

/// The objects in the volumes that the container with this name, or any container if it is not known, mounts
/// at, above or below the watched paths.
///
/// # Errors
/// If the object is no Pod.
pub(super) fn sources(
    pod: &[u8],
    container: Option<&str>,
    paths: &[PathBuf],
) -> Result<Vec<Source>, Reason> {
    let Pod { spec } = serde_json::from_slice(pod)
        .map_err(|_| Reason::new("the answer is not a Pod with a specification"))?;
    let containers = [spec.containers, spec.init_containers].into_iter().flatten().flatten();
    let (own, others): (Vec<_>, Vec<_>) =
        containers.partition(|other| container == Some(other.name.as_str()));
    // A container by another name: what it mounts is not known.
    let containers = if own.is_empty() { others } else { own };
    let volumes = spec.volumes.unwrap_or_default();
    let mut sources: Vec<Source> = Vec::new();
    for container in containers {
        let mounts = container.volume_mounts.unwrap_or_default();
        for (number, path) in paths.iter().enumerate() {
            let shown = shown_at(path, &mounts);
            let shown = volumes.iter().filter(|volume| shown.contains(&volume.name.as_str()));
            for (object, is_required) in shown.flat_map(objects) {
                add(&mut sources, object, number, is_required);
            }
        }
    }
    Ok(sources)
}

/// The names of the volumes that are seen at a path: the one that is mounted there or closest above it, and
/// those below. The preflight says of mounts with subPath that they never change.
fn shown_at<'a>(path: &Path, mounts: &'a [VolumeMount]) -> Vec<&'a str> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.mount_path));
    let closest = above.max_by_key(|mount| mount.mount_path.components().count());
    let below = mounts.iter().filter(|mount| mount.mount_path.starts_with(path));
    let changes =
        |mount: &&VolumeMount| mount.sub_path.is_empty() && mount.sub_path_expr.is_empty();
    closest.into_iter().chain(below).filter(changes).map(|mount| mount.name.as_str()).collect()
}

/// The objects in a volume, and whether each is required.
fn objects(volume: &Volume) -> Vec<(ObjectName, bool)> {
    use ObjectKind::{ConfigMap, Secret};
    let mut all = Vec::new();
    let mut one = |kind: ObjectKind, name: &str, optional: Option<bool>| {
        // Names go into paths and selectors.
        if is_subdomain(name) {
            all.push((ObjectName { kind, name: name.to_owned() }, optional != Some(true)));
        }
    };
    let Volume { config_map, secret, projected, .. } = volume;
    if let Some(map) = config_map {
        one(ConfigMap, &map.name, map.optional);
    }
    if let Some(secret) = secret {
        one(Secret, &secret.secret_name, secret.optional);
    }
    let projected = projected.as_ref().and_then(|projected| projected.sources.as_ref());
    for Projection { config_map, secret } in projected.into_iter().flatten() {
        for (kind, named) in [(ConfigMap, config_map), (Secret, secret)] {
            if let Some(Named { name, optional }) = named {
                one(kind, name, *optional);
            }
        }
    }
    all
}

fn add(sources: &mut Vec<Source>, object: ObjectName, path: usize, is_required: bool) {
    if let Some(known) = sources.iter_mut().find(|known| known.object == object) {
        let paths = known.paths.get_or_insert_default();
        if !paths.contains(&path) {
            paths.push(path);
        }
        // One volume that changes with the deletion is enough.
        known.is_required &= is_required;
        return;
    }
    sources.push(Source { object, paths: Some(vec![path]), is_required });
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"kind":"Pod","metadata":{"name":"web-0"},"spec":{
        "volumes":[
            {"name":"config","configMap":{"name":"app","defaultMode":420}},
            {"name":"tls","secret":{"secretName":"tls","optional":true}},
            {"name":"all","projected":{"sources":[
                {"serviceAccountToken":{"path":"token"}},
                {"configMap":{"name":"app"}},{"secret":{"name":"more","optional":false}},
                {"downwardAPI":{"items":[]}}]}},
            {"name":"other","configMap":{"name":"other"}},
            {"name":"tmp","emptyDir":{}},
            {"name":"odd","configMap":{"name":"../../x"}}],
        "initContainers":[{"name":"first","volumeMounts":[{"name":"other","mountPath":"/etc/app"}]}],
        "containers":[
            {"name":"app","volumeMounts":[{"name":"other","mountPath":"/etc/other"},{"name":"config","mountPath":"/etc/app"}]},
            {"name":"podnudge","volumeMounts":[
                {"name":"config","mountPath":"/etc/app"},{"name":"tls","mountPath":"/etc/app/tls/"},
                {"name":"all","mountPath":"/all"},{"name":"tmp","mountPath":"/tmp"},{"name":"odd","mountPath":"/odd"},
                {"name":"other","mountPath":"/unwatched"},{"name":"other","mountPath":"/sub","subPath":"a"}]}]}}"#;

    fn found(container: Option<&str>, paths: &[&str]) -> Vec<(String, Vec<usize>, bool)> {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let sources = sources(POD.as_bytes(), container, &paths).expect("it is a Pod");
        let shown = |source: Source| {
            (source.object.to_string(), source.paths.expect("they are known"), source.is_required)
        };
        sources.into_iter().map(shown).collect()
    }

    #[test]
    fn the_objects_are_those_of_the_volumes_at_above_and_below_the_watched_paths() {
        let of =
            |name: &str, paths: &[usize], required| (name.to_owned(), paths.to_vec(), required);
        assert_eq!(
            found(Some("podnudge"), &["/etc/app", "/all/sub", "/tmp", "/odd", "/none", "/sub"]),
            [
                of("configmap/app", &[0, 1], true),
                of("secret/tls", &[0], false),
                of("secret/more", &[1], true)
            ]
        );
        assert_eq!(found(Some("podnudge"), &["/etc/app/tls"]), [of("secret/tls", &[0], false)]);
    }

    #[test]
    fn without_the_name_of_the_container_all_containers_count() {
        let names = |container| -> Vec<String> {
            found(container, &["/etc/app"]).into_iter().map(|(name, ..)| name).collect()
        };
        let all = ["configmap/app", "secret/tls", "configmap/other"];
        assert_eq!(names(None), all);
        assert_eq!(names(Some("renamed")), all);
        assert_eq!(names(Some("first")), ["configmap/other"]);
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        for text in ["", "1", "{}", r#"{"spec":1}"#, r#"{"spec":{"volumes":1}}"#] {
            assert!(sources(text.as_bytes(), None, &[]).is_err(), "{text}");
        }
        assert_eq!(sources(br#"{"spec":{"volumes":null}}"#, None, &[]), Ok(Vec::new()));
    }
}
